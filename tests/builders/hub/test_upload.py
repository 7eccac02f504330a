"""Publishing to a real Hub on loopback: one commit, the tag on it, nothing moved, nothing mixed, nothing half."""

from __future__ import annotations

import contextlib
import multiprocessing
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from huggingface_hub import CommitOperationAdd, HfApi

from builders.errors import UserError
from builders.folders import write_parquet
from builders.hub.plan import Plan, describe, read_remote
from builders.hub.release import Release, releases
from builders.hub.upload import PushConflictError, Settings, check_rights, collect, look, push
from builders.schema import OUTPUTS
from inference.card import write_outputs_card
from tests.builders.hub.rows import output_row
from tests.hub.running import Hub, running_hub

ID = "acme/coherent-decisions-outputs-tiny-llama"
V1, V2 = Settings("acme", "v1.0.0"), Settings("acme", "v2.0.0")


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    with running_hub(tmp_path_factory.mktemp("hub")) as hub:
        yield hub


@pytest.fixture
def hub(running: Hub) -> Iterator[Hub]:
    """The running Hub without the repo."""
    yield running
    running.clear_faults()
    HfApi(running.url, token=running.token).delete_repo(ID, repo_type="dataset", missing_ok=True)


@pytest.fixture(autouse=True)
def quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client's waits between its tries, a hundredth as long."""
    clock = SimpleNamespace(sleep=lambda seconds: time.sleep(seconds / 100))
    monkeypatch.setattr("huggingface_hub.utils._http.time", clock)


@pytest.fixture
def api(hub: Hub) -> HfApi:
    return HfApi(hub.url, token=hub.token)


@pytest.fixture
def said() -> list[str]:
    return []


Publish = Callable[..., Plan]


@pytest.fixture
def publish(api: HfApi, outputs: Path, said: list[str]) -> Publish:
    """Plans and pushes the outputs; returns the plan."""

    def publish(settings: Settings = V1, api: HfApi = api) -> Plan:
        plan = look(api, release_of(outputs), settings.tag)
        push(api, plan, settings, said.append)
        return plan

    return publish


def release_of(folder: Path) -> Release:
    (release,) = releases(folder, "acme")
    return release


def answer_more(outputs: Path, number: int) -> None:
    """Other answers: two files of the folder change."""
    rows = [output_row(f"wildfire-0{i}.betting.fp1-fn1.complete.direct.r1") for i in range(number)]
    write_parquet(outputs, "base-direct-complete", "test", rows, OUTPUTS)
    write_outputs_card(outputs)


def commits(api: HfApi) -> list[str]:
    return [each.commit_id for each in api.list_repo_commits(ID, repo_type="dataset")]


def test_the_first_push_is_one_commit_with_everything_and_a_tag(
    publish: Publish, api: HfApi, outputs: Path, said: list[str]
) -> None:
    plan = publish()
    head, _ = commits(api)
    remote = read_remote(api, plan.release)
    assert set(remote.files) == {*plan.release.files, ".gitattributes"} and remote.tags == {"v1.0.0": head}
    assert said == [f"{ID}: commit {head[:7]} on main", f"{ID}: tag v1.0.0 is {head[:7]}"]
    text = describe(plan, "3 rows", private=False)
    assert text.startswith(f"dataset {ID}  (outputs in {outputs})\n  checked: 3 rows\n  new public repo: 4 new (")
    assert "    + recipe.yaml  22 B" in text and text.endswith("tag v1.0.0: new")


def test_an_unchanged_folder_makes_no_commit(publish: Publish, api: HfApi, hub: Hub, said: list[str]) -> None:
    publish()
    before, so_far = commits(api), len(hub.requests())
    plan = publish()
    assert not plan.commits and commits(api) == before
    assert not [each for each in hub.requests()[so_far:] if each.writes]
    assert said[-1] == f"{ID}: nothing to commit, main is {before[0][:7]}"
    assert "nothing to commit, 4 files are as they are" in describe(plan, "", False)


def test_what_changed_and_what_went_is_in_one_commit(publish: Publish, api: HfApi, outputs: Path) -> None:
    publish()
    answer_more(outputs, 5)
    (outputs.parent / "recipe.yaml").unlink()
    plan = publish(V2)
    assert (plan.new, plan.deleted) == ((), ("recipe.yaml",))
    assert plan.changed == ("README.md", "base-direct-complete/test-00000-of-00001.parquet")
    assert len(commits(api)) == 3
    remote = read_remote(api, plan.release)
    assert "recipe.yaml" not in remote.files and list(remote.tags) == ["v1.0.0", "v2.0.0"]
    assert "one commit on main: 2 changed (" in describe(plan, "", False)
    assert "- recipe.yaml  (22 B)" in describe(plan, "", False)


def test_a_tag_is_never_moved(publish: Publish, api: HfApi, outputs: Path) -> None:
    publish()
    answer_more(outputs, 5)
    with pytest.raises(UserError, match=r"tag v1\.0\.0 is at .* with other files \(README\.md.* is never moved"):
        publish()
    assert len(commits(api)) == 2
    publish(V2)


def test_somebody_elses_push_is_refused_and_not_mixed_with_ours(
    publish: Publish, api: HfApi, outputs: Path, said: list[str]
) -> None:
    publish()
    answer_more(outputs, 5)
    plan = look(api, release_of(outputs), "v2.0.0")
    theirs = api.create_commit(
        ID, [CommitOperationAdd("theirs.md", b"x")], commit_message="theirs", repo_type="dataset"
    )
    with pytest.raises(PushConflictError, match=r"somebody else pushed meanwhile .* or give --retry"):
        push(api, plan, V2, said.append)
    assert commits(api)[0] == theirs.oid and "v2.0.0" not in read_remote(api, plan.release).tags
    push(api, plan, Settings("acme", "v2.0.0", retry=True), said.append)
    remote = read_remote(api, plan.release)
    assert set(remote.files) == {*plan.release.files, ".gitattributes"} and remote.tags["v2.0.0"] == remote.head
    assert any(line.endswith("trying again") for line in said)


def test_a_commit_whose_answer_was_lost_is_completed(publish: Publish, hub: Hub, api: HfApi) -> None:
    hub.faults("lost", "POST", "/commit/")
    with pytest.raises(UserError, match=r"cannot be reached .* run the same command again"):
        publish()
    plan = publish()
    assert not plan.commits and len(commits(api)) == 2
    assert read_remote(api, plan.release).tags == {"v1.0.0": commits(api)[0]}


KINDS = ("exit", "exit after", "lost", "drop", "client", "client")
WORDS = (
    "/repos/create",
    "/preupload/",
    "/objects/batch",
    "/_lfs/",
    "/commit/",
    "/tag/",
    "/tree/",
    "/refs",
    "/revision",
)


@pytest.mark.parametrize("seed", range(20))
def test_a_push_interrupted_anywhere_leaves_whole_revisions_and_is_completed(
    seed: int, publish: Publish, hub: Hub, api: HfApi, outputs: Path
) -> None:
    """Client or server dies, a connection breaks, an answer is lost: before, at or after any request of a push."""
    first = publish()
    contents = [{path: first.release.content(path) for path in first.release.files}]
    answer_more(outputs, 5)
    second = release_of(outputs)
    contents.append({path: second.content(path) for path in second.files})
    draw = random.Random(seed)
    kind, method, word = draw.choice(KINDS), "GET|POST|PUT", draw.choice(WORDS)
    if kind == "client":
        hub.faults("delay", method, word, seconds=60)
        pushing = multiprocessing.get_context("fork").Process(target=publish, args=(V2,))
        pushing.start()
        pushing.join(1)
        pushing.kill()
        pushing.join()
    else:
        hub.faults(kind, method, word)
        with contextlib.suppress(UserError):
            publish(V2)
    hub.restart()
    for revision in ("main", "v1.0.0", "v2.0.0"):
        if revision == "main" or revision in read_remote(api, second).tags:
            assert downloaded(hub, api, revision) in contents
    assert downloaded(hub, api, "v1.0.0") == contents[0]
    publish(V2)
    assert downloaded(hub, api, "main") == downloaded(hub, api, "v2.0.0") == contents[1]
    assert len(commits(api)) == 3


def downloaded(hub: Hub, api: HfApi, revision: str) -> dict[str, bytes]:
    folder = api.snapshot_download(ID, repo_type="dataset", revision=revision, local_dir=hub.root / "seen" / revision)
    names = set(api.list_repo_files(ID, repo_type="dataset", revision=revision)) - {".gitattributes"}
    return {name: (Path(folder) / name).read_bytes() for name in sorted(names)}


def test_a_pull_request_leaves_main_alone(publish: Publish, api: HfApi, outputs: Path, said: list[str]) -> None:
    publish()
    before = commits(api)
    answer_more(outputs, 5)
    publish(Settings("acme", "v2.0.0", create_pr=True))
    assert commits(api) == before and "/discussions/" in said[-1]
    assert list(read_remote(api, release_of(outputs)).tags) == ["v1.0.0"]


@pytest.mark.parametrize(
    ("token", "org", "message"),
    [
        ("hf_stranger", "acme", "stranger is no member of acme; give --org stranger"),
        ("hf_member", "acme", "member may only read in acme"),
        ("hf_reader", "acme", "the token may only read"),
        ("hf_wrong", "acme", "the Hub answered 401 .* is the token valid"),
    ],
)
def test_rights_are_known_before_anything_is_sent(token: str, org: str, message: str, hub: Hub) -> None:
    with pytest.raises(UserError, match=message) as caught:
        check_rights(HfApi(hub.url, token=token), org)
    assert token not in str(caught.value)


@pytest.mark.parametrize("token", ["hf_writer", "hf_admin", "hf_fine", "hf_contributor"])
def test_who_may_write_is_named(token: str, hub: Hub) -> None:
    assert check_rights(HfApi(hub.url, token=token), "acme")


def test_a_private_repo_is_not_seen_by_others(publish: Publish, hub: Hub, api: HfApi, outputs: Path) -> None:
    publish(Settings("acme", private=True))
    assert read_remote(HfApi(hub.url, token=False), release_of(outputs)).head is None
    assert read_remote(api, release_of(outputs)).head is not None


def test_the_collection_links_each_repo_once(publish: Publish, api: HfApi, outputs: Path) -> None:
    publish()
    slug = collect(api, [release_of(outputs)], V1)
    assert collect(api, [release_of(outputs)], V1) == slug
    assert [(each.item_type, each.item_id) for each in api.get_collection(slug).items] == [("dataset", ID)]


def test_a_hub_that_is_not_there_is_one_line_without_an_address(outputs: Path) -> None:
    with pytest.raises(UserError, match="cannot be reached") as caught:
        look(HfApi("http://127.0.0.1:9", token="hf_secret"), release_of(outputs), None)
    assert "127.0.0.1" not in str(caught.value) and "hf_secret" not in str(caught.value)


def test_a_busy_hub_is_one_line(publish: Publish, hub: Hub) -> None:
    hub.faults("status", "POST", "/commit/", times=20)
    with pytest.raises(UserError, match=r"the Hub answered 503 .*; run the same command again"):
        publish()
