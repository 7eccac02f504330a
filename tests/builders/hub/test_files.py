"""Only plain files of the artifact are published, found without following anything out of the folder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from builders.errors import UserError
from builders.hub.files import MAX_FILE_BYTES, find_files


def anything(path: str) -> bool:
    return True


def no_pickles(path: str) -> bool:
    return path.endswith(".md")


def test_files_are_listed_in_order_and_hidden_ones_stay_at_home(tmp_path: Path) -> None:
    for name in ("b/two.md", "a.md", ".journal/run.jsonl", "b/.lock", "b/c/three.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    found = find_files(tmp_path, anything)
    assert list(found.files) == ["a.md", "b/c/three.md", "b/two.md"]
    assert found.hidden == (".journal", "b/.lock")


@pytest.mark.parametrize("where", ["link.md", "inner/link.md"])
def test_a_link_to_a_file_is_refused_wherever_it_leads(where: str, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("token")
    link = tmp_path / "folder" / where
    link.parent.mkdir(parents=True)
    link.symlink_to(secret)
    with pytest.raises(UserError, match=r"link\.md: a link, to .*secret; only plain files"):
        find_files(tmp_path / "folder", anything)


def test_a_link_to_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "up").symlink_to(tmp_path)
    with pytest.raises(UserError, match="up: a link, to"):
        find_files(tmp_path / "folder", anything)


def test_a_pipe_is_refused_without_waiting_for_it(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.md")
    with pytest.raises(UserError, match=r"pipe\.md: no plain file"):
        find_files(tmp_path, anything)


def test_a_file_of_two_gigabytes_is_refused_before_it_is_read(tmp_path: Path) -> None:
    with (tmp_path / "large.md").open("wb") as file:
        file.truncate(2 * MAX_FILE_BYTES)
    with pytest.raises(UserError, match=r"large\.md: 2\.0 GiB; no file of this project"):
        find_files(tmp_path, anything)


@pytest.mark.parametrize("name", ["adapter_model.bin", "rows.pkl", "x/optimizer.pt", "cases.NPZ"])
def test_a_pickle_is_called_one(name: str, tmp_path: Path) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_bytes(b"\x80\x04.")
    with pytest.raises(UserError, match="may be a pickle, which can run code"):
        find_files(tmp_path, no_pickles)


def test_any_other_file_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(UserError, match=r"notes\.txt: not a file of this kind of artifact"):
        find_files(tmp_path, no_pickles)
