"""The loopback Hub, asked by the real clients: what they push comes back, and what fails, fails as on the real one."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx2
import pytest
from huggingface_hub import CommitOperationAdd, CommitOperationCopy, HfApi
from huggingface_hub.errors import (
    EntryNotFoundError,
    GatedRepoError,
    HfHubHTTPError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from tests.hub.running import Hub, running_hub

WEIGHTS = bytes(range(256)) * 100
Commit = Callable[..., Any]


def files_of(api: HfApi, repo: str, revision: str = "main") -> list[str]:
    return api.list_repo_files(repo, repo_type="dataset", revision=revision)


def content(api: HfApi, repo: str, path: str, revision: str, cache: Path) -> bytes:
    return Path(api.hf_hub_download(repo, path, repo_type="dataset", revision=revision, cache_dir=cache)).read_bytes()


# --- Commits ----------------------------------------------------------------------------------------------------------


def test_a_repo_is_created_once_and_deleted(hub: Hub, api: HfApi) -> None:
    url = api.create_repo("acme/once", repo_type="space", space_sdk="static")
    assert (url, url.repo_type, url.repo_id) == (f"{hub.url}/spaces/acme/once", "space", "acme/once")
    assert api.create_repo("acme/once", repo_type="space", space_sdk="static", exist_ok=True) == url
    with pytest.raises(HfHubHTTPError, match="409"):
        api.create_repo("acme/once", repo_type="space", space_sdk="static")
    assert api.space_info("acme/once").sdk == "static"
    api.delete_repo("acme/once", repo_type="space")
    api.delete_repo("acme/once", repo_type="space", missing_ok=True)
    assert not api.repo_exists("acme/once", repo_type="space")
    assert api.create_repo("mine").repo_id == "writer/mine"


def test_regular_and_lfs_files_come_back(api: HfApi, repo: str, commit: Commit, tmp_path: Path) -> None:
    pushed = {
        "README.md": b"---\nlicense: mit\n---\n",
        "data/one.parquet": WEIGHTS,
        "empty.bin": b"",
        "a b/ü.txt": b"x",
    }
    done = commit(pushed)
    assert done.repo_url.repo_id == repo
    for path, expected in pushed.items():
        assert content(api, repo, path, done.oid, tmp_path) == expected
    info = api.dataset_info(repo, files_metadata=True)
    assert info.sha == done.oid and "license: mit" in str(info.card_data) and info.tags == ["license:mit"]
    stored: dict[str, Any] = {sibling.rfilename: sibling for sibling in info.siblings or []}
    assert stored["data/one.parquet"].lfs.sha256 == sha256(WEIGHTS).hexdigest()
    assert stored["README.md"].lfs is None


def test_files_and_folders_are_deleted_and_copied(api: HfApi, repo: str, commit: Commit) -> None:
    commit({"a/1.txt": b"1", "a/2.bin": b"2", "b.txt": b"3"})
    api.create_commit(
        repo,
        [CommitOperationCopy("a/2.bin", "copy.bin"), CommitOperationCopy("b.txt", "copy.txt")],
        commit_message="Copy",
        repo_type="dataset",
    )
    commit({"a/": None, "b.txt": None, "new/c.txt": b"4"})
    assert files_of(api, repo) == [".gitattributes", "copy.bin", "copy.txt", "new/c.txt"]
    with pytest.raises(EntryNotFoundError, match="doesn't exist"):
        commit({"b.txt": None})


def test_the_same_files_again_are_no_commit(hub: Hub, api: HfApi, repo: str, commit: Commit) -> None:
    first = commit({"a.txt": b"1", "b.bin": WEIGHTS})
    start = len(hub.requests())
    assert commit({"a.txt": b"1", "b.bin": WEIGHTS}).oid == first.oid
    assert not [request for request in hub.requests()[start:] if request.writes]
    assert len(api.list_repo_commits(repo, repo_type="dataset")) == 2


def test_a_stale_parent_is_refused(api: HfApi, repo: str, commit: Commit) -> None:
    first = commit({"a.txt": b"1"})
    second = commit({"a.txt": b"2"}, parent_commit=first.oid)
    with pytest.raises(HfHubHTTPError, match="412"):
        commit({"a.txt": b"3"}, parent_commit=first.oid)
    assert api.dataset_info(repo).sha == second.oid


def test_a_pull_request_leaves_main(api: HfApi, repo: str, commit: Commit) -> None:
    main = api.dataset_info(repo).sha
    assert [commit({"a.txt": b"1"}, create_pr=True).pr_num for _ in range(2)] == [1, 2]
    commit({"b.txt": b"1"}, revision="refs/pr/2")
    assert api.dataset_info(repo).sha == main
    assert "b.txt" in files_of(api, repo, "refs/pr/2")
    pulls = api.list_repo_refs(repo, repo_type="dataset", include_pull_requests=True).pull_requests
    assert pulls and [pull.name for pull in pulls] == ["1", "2"]


def test_a_large_file_comes_in_parts(hub: Hub, api: HfApi, repo: str, commit: Commit, tmp_path: Path) -> None:
    large = os.urandom(250_000)
    (tmp_path / "large.bin").write_bytes(large)
    done = commit({"large.bin": tmp_path / "large.bin"})
    parts = [request.path for request in hub.requests() if f"{sha256(large).hexdigest()}/part/" in request.path]
    assert sorted(path[-1] for path in parts) == ["1", "2", "3"]
    assert content(api, repo, "large.bin", done.oid, tmp_path / "cache") == large


def test_a_commit_needs_its_objects(hub: Hub, repo: str) -> None:
    lines = [
        {"key": "header", "value": {"summary": "Lost", "description": ""}},
        {"key": "lfsFile", "value": {"path": "a.bin", "algo": "sha256", "oid": "0" * 64, "size": 1}},
    ]
    response = httpx2.post(
        f"{hub.url}/api/datasets/{repo}/commit/main",
        content="\n".join(map(json.dumps, lines)),
        headers={"Authorization": f"Bearer {hub.token}"},
    )
    assert response.status_code == 400 and "does not exist" in response.json()["error"]


def test_a_card_with_errors_is_refused(commit: Commit) -> None:
    for card in (b"---\na: [\n---\n", b"---\nconfigs:\n- data_files: x\n---\n", b"---\ntags: [1]\n---\n"):
        with pytest.raises(ValueError, match="Invalid metadata"):
            commit({"README.md": card})
    with pytest.warns(UserWarning, match="empty or missing yaml"):
        commit({"README.md": b"# Only text"})


# --- Refs and trees ---------------------------------------------------------------------------------------------------


def test_branches_and_tags(api: HfApi, repo: str, commit: Commit) -> None:
    first = commit({"a.txt": b"1"}).oid
    api.create_tag(repo, tag="v1.0", repo_type="dataset")
    api.create_branch(repo, branch="some/work", revision="v1.0", repo_type="dataset")
    with pytest.raises(HfHubHTTPError, match="409"):
        api.create_tag(repo, tag="v1.0", repo_type="dataset")
    api.create_tag(repo, tag="v1.0", repo_type="dataset", exist_ok=True)
    api.create_branch(repo, branch="some/work", repo_type="dataset", exist_ok=True)
    second = commit({"a.txt": b"2"}, revision="some/work").oid
    refs = api.list_repo_refs(repo, repo_type="dataset")
    assert {ref.ref: ref.target_commit for ref in refs.branches + refs.tags} == {
        "refs/heads/main": first,
        "refs/heads/some/work": second,
        "refs/tags/v1.0": first,
    }
    assert api.dataset_info(repo, revision="some/work").sha == second
    assert api.dataset_info(repo, revision=second[:8]).sha == second
    api.delete_tag(repo, tag="v1.0", repo_type="dataset")
    api.delete_branch(repo, branch="some/work", repo_type="dataset")
    for revision in ("v1.0", "some/work"):
        with pytest.raises(RevisionNotFoundError):
            api.dataset_info(repo, revision=revision)
    with pytest.raises(RevisionNotFoundError):
        commit({"a.txt": b"3"}, revision="some/work")


def test_trees_come_in_pages(hub: Hub, api: HfApi, repo: str, commit: Commit) -> None:
    commit({f"folder/{number}.txt": b"1" for number in range(9)})
    last = commit({"folder/deep/a b.txt": b"2"})
    start = len(hub.requests())
    entries = list(api.list_repo_tree(repo, recursive=True, expand=True, repo_type="dataset"))
    assert len(hub.requests()) - start == 4
    assert len(entries) == 9 + 4
    changed = {entry.path for entry in entries if entry.last_commit and entry.last_commit.oid == last.oid}
    assert changed == {"folder", "folder/deep", "folder/deep/a b.txt"}
    assert [entry.path for entry in api.list_repo_tree(repo, "folder/deep", repo_type="dataset")] == [
        "folder/deep/a b.txt"
    ]
    with pytest.raises(EntryNotFoundError):
        list(api.list_repo_tree(repo, "nowhere", repo_type="dataset"))
    found = api.get_paths_info(repo, ["folder", "folder/1.txt", "nowhere"], repo_type="dataset")
    assert [entry.path for entry in found] == ["folder", "folder/1.txt"]


def test_history(api: HfApi, repo: str, commit: Commit) -> None:
    oids = [commit({"a.txt": str(number).encode()}).oid for number in range(5)]
    history = api.list_repo_commits(repo, repo_type="dataset")
    assert [entry.commit_id for entry in history[:-1]] == oids[::-1]
    assert history[0].authors == ["writer"] and history[-1].title == "initial commit"


def test_search(api: HfApi, repo: str, commit: Commit) -> None:
    commit({"README.md": b"---\ntags: [rare, other]\n---\n"})
    assert [found.id for found in api.list_datasets(author="acme", filter="rare", search="SEARCH")] == [repo]
    assert not list(api.list_datasets(author="writer", filter="rare"))
    assert len(list(api.list_datasets(author="acme", limit=1))) == 1


# --- Rights -----------------------------------------------------------------------------------------------------------


def test_a_private_repo_is_for_members(hub: Hub, api: HfApi, repo: str, commit: Commit, tmp_path: Path) -> None:
    commit({"a.bin": WEIGHTS})
    api.update_repo_settings(repo, private=True, repo_type="dataset")
    for token in ("hf_stranger", False):
        other = HfApi(hub.url, token=token)
        with pytest.raises(RepositoryNotFoundError):
            other.dataset_info(repo)
        with pytest.raises(RepositoryNotFoundError):
            content(other, repo, "a.bin", "main", tmp_path)
        assert repo not in [found.id for found in other.list_datasets(author="acme")]
    assert content(HfApi(hub.url, token="hf_member"), repo, "a.bin", "main", tmp_path) == WEIGHTS
    api.update_repo_settings(repo, private=False, repo_type="dataset")
    assert HfApi(hub.url, token=False).dataset_info(repo).private is False


def test_who_may_write(hub: Hub, api: HfApi, repo: str) -> None:
    def tries(token: Any) -> int:
        try:
            HfApi(hub.url, token=token).create_tag(repo, tag=token or "none", repo_type="dataset")
        except HfHubHTTPError as error:
            return error.response.status_code
        return 200

    tokens = ["hf_writer", "hf_admin", "hf_fine", "hf_member", "hf_stranger", "hf_reader", "hf_contributor"]
    assert list(map(tries, tokens)) == [200] * 3 + [403] * 4
    assert tries(False) == tries("hf_unknown") == 401
    HfApi(hub.url, token="hf_contributor").create_repo("acme/contributed")
    with pytest.raises(HfHubHTTPError, match="403"):
        api.create_repo("elsewhere/new")


def test_who_one_is(hub: Hub) -> None:
    def said(token: str) -> tuple[str, str, list[str]]:
        answer = HfApi(hub.url, token=token).whoami()
        return answer["name"], answer["auth"]["accessToken"]["role"], [org["roleInOrg"] for org in answer["orgs"]]

    assert said("hf_writer") == ("writer", "write", ["write"])
    assert said("hf_reader") == ("writer", "read", ["write"])
    assert said("hf_fine") == ("writer", "fineGrained", ["write"])
    assert said("hf_stranger") == ("stranger", "write", [])
    with pytest.raises(HfHubHTTPError, match="Invalid user token"):
        said("hf_unknown")


def test_a_gated_repo_shows_itself_but_no_files(hub: Hub, api: HfApi, repo: str, tmp_path: Path) -> None:
    api.update_repo_settings(repo, gated="auto", repo_type="dataset")
    stranger = HfApi(hub.url, token="hf_stranger")
    assert stranger.dataset_info(repo).gated == "auto"
    with pytest.raises(GatedRepoError):
        content(stranger, repo, ".gitattributes", "main", tmp_path)
    with pytest.raises(GatedRepoError):
        stranger.auth_check(repo, repo_type="dataset")
    api.auth_check(repo, repo_type="dataset", write=True)


# --- Downloads --------------------------------------------------------------------------------------------------------


def test_what_is_not_there(api: HfApi, repo: str, tmp_path: Path) -> None:
    with pytest.raises(EntryNotFoundError):
        content(api, repo, "nowhere.txt", "main", tmp_path)
    with pytest.raises(RevisionNotFoundError):
        content(api, repo, ".gitattributes", "v9", tmp_path)
    with pytest.raises(RepositoryNotFoundError):
        content(api, "acme/nothing", "a.txt", "main", tmp_path)
    with pytest.raises(RepositoryNotFoundError):
        api.model_info("canonical")


def test_no_token_is_sent_to_the_other_origin(hub: Hub, api: HfApi, repo: str, commit: Commit, tmp_path: Path) -> None:
    commit({"a.bin": WEIGHTS})
    content(api, repo, "a.bin", "main", tmp_path)
    assert {request.token for request in hub.requests() if request.path.startswith("/_cdn/")} == {False}
    address = f"{hub.url}/_cdn/{sha256(WEIGHTS).hexdigest()}"
    assert httpx2.get(address, headers={"Authorization": f"Bearer {hub.token}"}).status_code == 400


def test_ranges(hub: Hub, repo: str, commit: Commit) -> None:
    commit({"a.txt": b"0123456789"})
    address = f"{hub.url}/datasets/{repo}/resolve/main/a.txt"

    def part(asked: str) -> tuple[int, bytes]:
        response = httpx2.get(address, headers={"Range": f"bytes={asked}"})
        return response.status_code, response.content if response.status_code == 206 else b""

    for asked, expected in {"2-4": b"234", "7-": b"789", "-2": b"89", "8-99": b"89"}.items():
        assert part(asked) == (206, expected)
    assert part("10-")[0] == 416


def test_a_snapshot_at_a_tag(api: HfApi, repo: str, commit: Commit, tmp_path: Path) -> None:
    commit({"a.txt": b"1", "b/c.bin": WEIGHTS})
    api.create_tag(repo, tag="1.0", repo_type="dataset")
    commit({"a.txt": b"2", "b/": None})
    folder = Path(api.snapshot_download(repo, repo_type="dataset", revision="1.0", cache_dir=tmp_path))
    assert (folder / "a.txt").read_bytes() == b"1" and (folder / "b/c.bin").read_bytes() == WEIGHTS


# --- Collections ------------------------------------------------------------------------------------------------------


def test_collections(hub: Hub, api: HfApi, repo: str) -> None:
    made = api.create_collection("A Title, 1.0", namespace="acme", description="words")
    assert api.create_collection("A Title, 1.0", namespace="acme", exists_ok=True).slug == made.slug
    with pytest.raises(HfHubHTTPError, match="409"):
        api.create_collection("A Title, 1.0", namespace="acme")
    assert made.slug.startswith("acme/a-title-1-0-") and made.url.startswith(hub.url)
    other = api.create_repo("acme/item").repo_id
    for _ in range(2):
        api.add_collection_item(made.slug, repo, "dataset", note="first", exists_ok=True)
        found = api.add_collection_item(made.slug, other, "model", exists_ok=True)
    assert [(item.item_id, item.item_type, item.note) for item in found.items] == [
        (repo, "dataset", "first"),
        (other, "model", None),
    ]
    with pytest.raises(HfHubHTTPError, match="409"):
        api.add_collection_item(made.slug, repo, "dataset")
    with pytest.raises(HfHubHTTPError):
        api.add_collection_item(made.slug, "acme/nothing", "dataset")
    assert [one.title for one in api.list_collections(owner="acme", item=f"datasets/{repo}")] == ["A Title, 1.0"]
    api.update_collection_item(made.slug, found.items[1].item_object_id, position=0, note="now first")
    api.delete_collection_item(made.slug, found.items[0].item_object_id)
    assert api.update_collection_metadata(made.slug, private=True).private
    assert [item.note for item in api.get_collection(made.slug).items] == ["now first"]
    with pytest.raises(HfHubHTTPError, match="404"):
        HfApi(hub.url, token="hf_stranger").get_collection(made.slug)
    api.delete_collection(made.slug)
    api.delete_collection(made.slug, missing_ok=True)


# --- Clients that read the environment --------------------------------------------------------------------------------

METRIC = """
import datasets
import evaluate
from .toy_core import share


class Toy(evaluate.Metric):
    def _info(self):
        features = datasets.Features({name: datasets.Value("int64") for name in ("predictions", "references")})
        return evaluate.MetricInfo(description="", citation="", inputs_description="", features=features)

    def _compute(self, predictions, references):
        return {"share": share(predictions, references)}
"""
CORE = "def share(a, b):\n    return sum(x == y for x, y in zip(a, b)) / len(a)\n"
SCRIPT = """
import evaluate, json
from datasets import Dataset, load_dataset
from huggingface_hub import create_tag

for numbers in ([1, 2], [3]):
    Dataset.from_dict({"x": numbers}).push_to_hub("acme/rows", "some", private=True)
    create_tag("acme/rows", tag=f"v{len(numbers)}", repo_type="dataset")
Dataset.from_dict({"x": [4]}).push_to_hub("acme/rows", "other")
rows = {
    revision: load_dataset("acme/rows", "some", revision=revision)["train"]["x"][:] for revision in ("v2", "v1", None)
}
scores = [
    evaluate.load("acme/toy", revision=revision).compute(predictions=[1, 2], references=[1, 3])
    for revision in ("1.0.0", None)
]
print(json.dumps([list(rows.values()), [score["share"] for score in scores]]))
"""


def test_datasets_and_evaluate_in_a_process_of_their_own(hub: Hub, api: HfApi) -> None:
    api.create_repo("acme/toy", repo_type="space", space_sdk="static")
    for message, core in (("First", CORE), ("Second", CORE.replace("/ len(a)", "+ 10"))):
        files = {"toy.py": METRIC.encode(), "toy_core.py": core.encode()}
        api.create_commit(
            "acme/toy", [CommitOperationAdd(*file) for file in files.items()], commit_message=message, repo_type="space"
        )
        api.create_tag("acme/toy", tag="v1.0.0", repo_type="space", exist_ok=True)
    start = len(hub.requests())
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], env={**os.environ, **hub.environment}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == [[[1, 2], [3], [3]], [0.5, 11]]
    assert not [request for request in hub.requests()[start:] if (request.status or 500) not in (200, 206, 302, 404)]


def test_offline_mode_elsewhere_does_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with running_hub(tmp_path) as hub:
        assert HfApi(hub.url, token=hub.token).create_repo("acme/here").repo_id == "acme/here"
