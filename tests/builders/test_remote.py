"""Folders behind a URL: fetched, worked in, sent back, whatever ends the work."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from builders.artifacts import folder_digest, resolve
from builders.errors import UserError
from builders.remote import RECORD, fetch, is_remote, local_folder, mirror, refresh, seen_folder, send, shared


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """The folder behind the URL."""
    (tmp_path / "far" / "run" / "sub").mkdir(parents=True)
    (tmp_path / "far" / "run" / "a.txt").write_text("one")
    (tmp_path / "far" / "run" / "sub" / "b.txt").write_text("two")
    return tmp_path / "far" / "run"


def url(place: Path) -> str:
    return f"file://{place}"


def contents(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): path.read_text()
        for path in folder.rglob("*")
        if path.is_file() and path.name != RECORD
    }


@pytest.mark.parametrize(("reference", "remote"), [("s3://b/x", True), ("file:///x", True), ("org/name", False)])
def test_what_is_a_url(reference: str, remote: bool) -> None:
    assert is_remote(reference) is remote and not is_remote(Path("/a/b"))


def test_a_folder_is_fetched_once_and_again_where_it_changed(place: Path) -> None:
    folder = fetch(url(place))
    assert folder == mirror(url(place) + "/") and contents(folder) == {"a.txt": "one", "sub/b.txt": "two"}
    before = (folder / "sub" / "b.txt").stat().st_mtime_ns
    (place / "a.txt").write_text("one, longer")
    (place / "c.txt").write_text("three")
    assert contents(fetch(url(place))) == {"a.txt": "one, longer", "sub/b.txt": "two", "c.txt": "three"}
    assert (folder / "sub" / "b.txt").stat().st_mtime_ns == before


def test_what_changes_here_is_sent_and_what_is_removed_goes(place: Path) -> None:
    with local_folder(url(place)) as folder:
        (folder / "a.txt").write_text("changed")
        (folder / "new" / "deep").mkdir(parents=True)
        (folder / "new" / "deep" / "d.txt").write_text("four")
        (folder / "sub" / "b.txt").unlink()
        (folder / "run.lock").write_text("")
        (folder / "d.parquet.partial").write_text("half")
    assert contents(place) == {"a.txt": "changed", "new/deep/d.txt": "four"}


def test_nothing_is_sent_twice(place: Path) -> None:
    folder = fetch(url(place))
    (folder / "a.txt").write_text("changed")
    send(folder)
    before = {path: path.stat().st_mtime_ns for path in place.rglob("*")}
    send(folder)
    fetch(url(place))
    assert {path: path.stat().st_mtime_ns for path in place.rglob("*")} == before


def test_an_error_or_an_interrupt_sends_what_there_is(place: Path) -> None:
    def interrupted() -> None:
        with local_folder(url(place)) as folder:
            (folder / "journal").write_text("answers")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert contents(place)["journal"] == "answers"


def test_after_a_kill_the_mirror_still_has_it(place: Path) -> None:
    code = (
        "import sys, time; from builders.remote import local_folder\n"
        f"with local_folder({url(place)!r}) as folder:\n"
        "    (folder / 'journal').write_text('answers'); print('there', flush=True); time.sleep(60)"
    )
    killed = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, cwd=Path(__file__).parents[2], env=dict(os.environ)
    )
    assert killed.stdout is not None and killed.stdout.readline() == b"there\n"
    with pytest.raises(UserError, match="another process works on it"), local_folder(url(place)):
        pass
    killed.kill()
    killed.communicate()
    assert "journal" not in contents(place)
    with local_folder(url(place)) as folder:
        assert (folder / "journal").read_text() == "answers"
    assert contents(place)["journal"] == "answers"


def test_one_can_look_while_another_works(place: Path) -> None:
    with local_folder(url(place)) as folder:
        (folder / "journal").write_text("answers")
        (place / "from-another.txt").write_text("six")
        assert seen_folder(url(place)) == folder
        assert contents(folder).keys() >= {"journal", "from-another.txt"}
        assert "journal" not in contents(place)
    assert seen_folder(place) == place


def test_a_name_that_leads_out_of_the_folder_is_refused(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fsspec.implementations.local.LocalFileSystem.find", lambda *_: [f"{place}/../../out.txt"])
    with pytest.raises(UserError, match="outside of the folder"):
        fetch(url(place))


def test_it_is_sent_while_the_work_goes_on(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("builders.remote.SECONDS", 0.05)
    with local_folder(url(place)) as folder:
        (folder / "journal").write_text("answers")
        deadline = time.monotonic() + 10
        while "journal" not in contents(place) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert contents(place)["journal"] == "answers"


def test_a_file_that_was_changed_there_and_here_is_not_overwritten(place: Path) -> None:
    folder = fetch(url(place))
    (folder / "a.txt").write_text("here")
    (place / "a.txt").write_text("there too")
    with pytest.raises(UserError, match=r"a\.txt was changed there and in"):
        fetch(url(place))
    assert (folder / "a.txt").read_text() == "here" and (place / "a.txt").read_text() == "there too"


def test_a_plain_folder_is_used_as_it_is(tmp_path: Path) -> None:
    with local_folder(tmp_path / "out") as folder:
        assert folder == tmp_path / "out" and not folder.exists()
    assert shared(tmp_path) == str(tmp_path)
    refresh(tmp_path)


def test_a_folder_in_a_mirror_is_named_by_its_url_and_sent_before(place: Path) -> None:
    folder = fetch(url(place))
    (folder / "sub" / "new.txt").write_text("five")
    artifact = resolve(str(folder / "sub"), "dataset")
    assert artifact.reference == f"{url(place)}/sub" and contents(place)["sub/new.txt"] == "five"
    there = artifact.here("dataset")
    assert there == artifact.__class__("sub", mirror(f"{url(place)}/sub"), artifact.revision)
    (place / "sub" / "from-another.txt").write_text("six")
    refresh(folder / "sub")
    assert (folder / "sub" / "from-another.txt").read_text() == "six"
    with pytest.raises(UserError, match="other files on another machine"):
        artifact.here("dataset")


def test_an_artifact_is_resolved_by_its_url(place: Path) -> None:
    artifact = resolve(url(place), "dataset")
    assert (artifact.id, artifact.revision) == ("run", folder_digest(place)) and artifact.reference == url(place)


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("file:///no/such/folder", "no such folder, or nothing in it"),
        ("nosuchscheme://x/y", "cannot be reached or written to"),
    ],
)
def test_a_url_that_leads_nowhere_is_one_line(reference: str, message: str) -> None:
    with pytest.raises(UserError, match=message) as error:
        resolve(reference, "dataset")
    assert "\n" not in str(error.value) and str(error.value).startswith(reference)
