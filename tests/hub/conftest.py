"""A loopback Hub for the tests of a file, and for each test a dataset of its own on it."""

import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi

from tests.hub.running import Hub, running_hub

Commit = Callable[..., Any]


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    with running_hub(tmp_path_factory.mktemp("hub"), page=4, multipart=100_000) as hub:
        yield hub


@pytest.fixture
def api(hub: Hub) -> HfApi:
    hub.clear_faults()
    return HfApi(hub.url, token=hub.token)


@pytest.fixture
def repo(api: HfApi, request: pytest.FixtureRequest) -> str:
    name = request.node.name.replace("[", "-").replace("]", "").replace(" ", "-")
    return str(api.create_repo(f"acme/{name}", repo_type="dataset").repo_id)


@pytest.fixture
def commit(api: HfApi, repo: str) -> Commit:
    """commit({path: content, or None to delete}, **options of create_commit) in the test's dataset."""

    def send(files: dict[str, Any], **options: Any) -> Any:
        operations = [
            CommitOperationDelete(path) if content is None else CommitOperationAdd(path, content)
            for path, content in files.items()
        ]
        return api.create_commit(repo, operations, commit_message="Change", repo_type="dataset", **options)

    return send


@pytest.fixture
def quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client's waits between its tries, a hundredth as long."""
    clock = SimpleNamespace(sleep=lambda seconds: time.sleep(seconds / 100))
    monkeypatch.setattr("huggingface_hub.utils._http.time", clock)
    monkeypatch.setattr("huggingface_hub.file_download.time", clock)
