"""The loopback Hub's faults, and that a kill at any moment leaves whole revisions."""

import os
import random
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest
from huggingface_hub import CommitOperationAdd, HfApi
from huggingface_hub.errors import HfHubHTTPError

from tests.hub.running import Hub, running_hub
from tests.hub.store import HEADS, Files, Store

Commit = Callable[..., Any]


def head(api: HfApi, repo: str) -> str | None:
    return api.dataset_info(repo).sha


def statuses(hub: Hub, part: str) -> list[int | None]:
    """What the requests were answered with that have this in their path."""
    return [request.status for request in hub.requests() if part in request.path]


# --- Faults -----------------------------------------------------------------------------------------------------------


def test_a_fault_meets_the_requests_it_is_for(hub: Hub, api: HfApi, repo: str) -> None:
    hub.faults("status", "GET", f"{repo}$", nth=2, times=2, status=500)
    for expected in (200, 500, 500, 200):
        api.list_repo_refs(repo, repo_type="dataset")
        if expected == 200:
            assert head(api, repo)
        else:
            with pytest.raises(HfHubHTTPError, match=str(expected)):
                head(api, repo)


def test_a_busy_hub_is_asked_again(hub: Hub, repo: str, commit: Commit, quick_retries: None) -> None:
    hub.faults("status", "POST", f"{repo}/preupload/", times=2, retry_after="0")
    commit({"a.txt": b"1"})
    assert statuses(hub, f"{repo}/preupload/") == [503, 503, 200]


def test_delay(hub: Hub, api: HfApi, repo: str) -> None:
    hub.faults("delay", path=repo, seconds=0.3)
    begin = time.monotonic()
    assert head(api, repo)
    assert 0.3 < time.monotonic() - begin < 5


def test_drop_does_nothing(hub: Hub, api: HfApi, repo: str) -> None:
    hub.faults("drop", "POST", "/tag/")
    with pytest.raises(httpx2.RemoteProtocolError):
        api.create_tag(repo, tag="v1", repo_type="dataset")
    assert statuses(hub, f"{repo}/tag/") == [None]
    assert not api.list_repo_refs(repo, repo_type="dataset").tags


def test_lost_does_everything_but_answer(hub: Hub, api: HfApi, repo: str, commit: Commit) -> None:
    before = head(api, repo)
    hub.faults("lost", "POST", "/commit/")
    with pytest.raises(httpx2.RemoteProtocolError):
        commit({"a.bin": b"1"})
    assert statuses(hub, f"{repo}/commit/") == [None]
    after = head(api, repo)
    assert before != after
    assert commit({"a.bin": b"1"}).oid == after


def test_a_download_that_is_cut_goes_on(
    hub: Hub,
    api: HfApi,
    repo: str,
    commit: Commit,
    tmp_path: Path,
    quick_retries: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The client keeps whole chunks only, of 10 MiB.
    monkeypatch.setattr("huggingface_hub.constants.DOWNLOAD_CHUNK_SIZE", 1000)
    large = os.urandom(50_000)
    commit({"a.bin": large})
    hub.faults("cut", "GET", "/_cdn/", size=20_000)
    path = api.hf_hub_download(repo, "a.bin", repo_type="dataset", cache_dir=tmp_path)
    assert Path(path).read_bytes() == large
    assert [request.status for request in hub.requests() if request.path.startswith("/_cdn/")] == [200, 206]


@pytest.mark.parametrize(("kind", "done"), [("exit", False), ("exit after", True)])
def test_exit(hub: Hub, api: HfApi, repo: str, commit: Commit, kind: str, done: bool) -> None:
    before = head(api, repo)
    hub.faults(kind, "POST", "/commit/")
    with pytest.raises(httpx2.RemoteProtocolError):
        commit({"a.txt": b"1"})
    assert hub.died()
    hub.restart()
    assert (head(api, repo) != before) is done
    commit({"a.txt": b"1"})
    assert statuses(hub, f"{repo}/commit/") == ([None] if done else [None, 200])


def test_an_unknown_fault_is_told_at_once(hub: Hub) -> None:
    with pytest.raises(ValueError, match="there are status, delay"):
        hub.faults("explode")


# --- Kills ------------------------------------------------------------------------------------------------------------


def test_a_killed_hub_has_whole_revisions(hub: Hub, api: HfApi, repo: str, quick_retries: None, tmp_path: Path) -> None:
    moments, stop, tries = random.Random(124), threading.Event(), [0]

    def push() -> None:
        went_through = False
        while not (stop.is_set() and went_through):
            tries[0] += 1
            files = {f"{n}.{suffix}": f"{tries[0]}-{n}".encode() for n in range(6) for suffix in ("txt", "bin")}
            operations = [CommitOperationAdd(path, data) for path, data in files.items()]
            try:
                api.create_commit(repo, operations, commit_message=str(tries[0]), repo_type="dataset")
                went_through = True
            except (httpx2.TransportError, HfHubHTTPError, RuntimeError):
                went_through = False
                time.sleep(0.01)

    pusher = threading.Thread(target=push)
    pusher.start()
    try:
        for _ in range(9):
            begun = tries[0]
            while tries[0] == begun:
                time.sleep(0.001)
            time.sleep(moments.uniform(0.0, 0.1))
            hub.kill()
            try:
                check_whole(hub, repo)
            finally:
                hub.restart()
    finally:
        stop.set()
        pusher.join()
    last = api.list_repo_commits(repo, repo_type="dataset")[0].title
    folder = Path(api.snapshot_download(repo, repo_type="dataset", cache_dir=tmp_path))
    assert {path.read_text().split("-")[0] for path in folder.glob("[0-9].*")} == {last}
    assert tries[0] > 8


def check_whole(hub: Hub, repo: str) -> None:
    """What a server that was killed has left: each file of main is there, all from one commit."""
    store = Store(hub.root / "data")
    files = store.repo("datasets", repo).files("main")[1]
    contents = {path: store.content(file).read_bytes() for path, file in files.items()}
    assert all(len(contents[path]) == file["size"] for path, file in files.items())
    pushes = {data.split(b"-")[0] for path, data in contents.items() if path != ".gitattributes"}
    assert len(pushes) <= 1


def test_a_crash_at_any_rename_leaves_whole_revisions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replace = os.replace
    done = False
    for number in range(100):
        left = number

        def rename(source: Any, target: Any) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise KeyboardInterrupt
            replace(source, target)

        root = tmp_path / str(number)
        with monkeypatch.context() as patch:
            patch.setattr(os, "replace", rename)
            try:
                write_two_revisions(root)
                done = True
            except KeyboardInterrupt:
                pass
        store = Store(root)
        repo = store.repo("datasets", "acme/toy")
        if repo.exists:
            for commit in repo.log(repo.resolve("main")):
                assert all(store.content(file).exists() for file in commit["files"].values())
        if done:
            break
    assert number == 12


def write_two_revisions(root: Path) -> None:
    store = Store(root)
    repo = store.create("datasets", "acme/toy", "writer", private=False)
    for text in (b"1", b"2"):

        def edit(files: Files, text: bytes = text) -> Files:
            return {**files, "a.txt": store.put_blob(text), "b.txt": store.put_blob(text * 2)}

        repo.change(f"{HEADS}main", edit, None, False, title="Change", message="", author="writer")


def test_a_hub_ends_with_its_parent(tmp_path: Path) -> None:
    with running_hub(tmp_path) as hub:
        assert hub.process.stdin
        hub.process.stdin.close()
        hub.process.stdin = None
        assert hub.died()
