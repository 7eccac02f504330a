"""The journal of a run: what a kill, a bit flip or another run leave behind costs at most the line concerned."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, example, given, settings

from builders.errors import UserError
from inference.journal import open_journal

RUN = {"model": "tiny", "sampling": {"temperature": 0.7}}
REPOSITORY = Path(__file__).parents[2]

Record = dict[str, Any]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / ".journal" / "base-direct-complete-test.jsonl"


def write(path: Path, items: dict[str, str], run: Record = RUN) -> None:
    with open_journal(path, run) as journal:
        for item_id, text in items.items():
            journal.append(item_id, f"prompt of {item_id}", {"text": text})


def read(path: Path, items: list[str], run: Record = RUN) -> tuple[dict[str, str], int, int]:
    """(texts by item id, lines skipped, foreign lines)."""
    with open_journal(path, run) as journal:
        found = {item_id: journal.get(item_id, f"prompt of {item_id}") for item_id in items}
        texts = {item_id: record["text"] for item_id, record in found.items() if record}
        return texts, journal.skipped, journal.foreign


def test_what_was_appended_is_there_after_reopening(path: Path) -> None:
    write(path, {"a": "one", "b": "two\nlines"})
    assert read(path, ["a", "b", "c"]) == ({"a": "one", "b": "two\nlines"}, 0, 0)
    write(path, {"c": "three"})
    assert read(path, ["a", "b", "c"]) == ({"a": "one", "b": "two\nlines", "c": "three"}, 0, 0)


def test_an_appended_line_is_in_the_file_at_once(path: Path) -> None:
    with open_journal(path, RUN) as journal:
        for number in range(3):
            journal.append(f"i{number}", "p", {"text": ""})
            assert path.read_bytes().count(b"\n") == number + 1
            assert journal.get(f"i{number}", "p") is not None


def test_what_is_there_is_known_without_being_read(path: Path) -> None:
    write(path, {"a": "one", "b": "two"})
    with open_journal(path, RUN) as journal:
        assert ("a", "prompt of a") in journal and ("a", "prompt of b") not in journal
        journal.append("c", "prompt of c", {"text": "three"})
        assert ("c", "prompt of c") in journal and ("d", "prompt of d") not in journal


def test_reading_between_appends_disturbs_neither(path: Path) -> None:
    texts = {f"i{number}": "é" * (7 * number % 23) for number in range(40)}
    with open_journal(path, RUN) as journal:
        for number, (item_id, text) in enumerate(texts.items()):
            journal.append(item_id, f"prompt of {item_id}", {"text": text})
            for earlier in list(texts)[: number + 1 : 3]:
                record = journal.get(earlier, f"prompt of {earlier}")
                assert record and record["text"] == texts[earlier]
    assert read(path, list(texts)) == (texts, 0, 0)


def test_a_torn_line_is_skipped_and_nothing_is_glued_to_it(path: Path) -> None:
    write(path, {"a": "one", "b": "two"})
    path.write_bytes(path.read_bytes()[:-5])
    assert read(path, ["a", "b"]) == ({"a": "one"}, 1, 0)
    write(path, {"b": "again", "c": "three"})
    assert read(path, ["a", "b", "c"]) == ({"a": "one", "b": "again", "c": "three"}, 1, 0)


def test_a_flipped_byte_costs_its_line(path: Path) -> None:
    write(path, {"a": "one", "b": "two", "c": "three"})
    whole = path.read_bytes()
    at = whole.index(b"two")
    path.write_bytes(whole[:at] + b"T" + whole[at + 1 :])
    assert read(path, ["a", "b", "c"]) == ({"a": "one", "c": "three"}, 1, 0)


@pytest.mark.parametrize(
    "other", [{**RUN, "model": "other"}, {**RUN, "sampling": {"temperature": 0.8}}, {**RUN, "guided": True}]
)
def test_lines_of_another_run_are_counted_and_not_used(path: Path, other: Record) -> None:
    write(path, {"a": "one", "b": "two"})
    assert read(path, ["a", "b"], other) == ({}, 0, 2)
    write(path, {"a": "other"}, other)
    assert read(path, ["a", "b"]) == ({"a": "one", "b": "two"}, 0, 1)


def test_the_order_of_the_settings_does_not_matter(path: Path) -> None:
    write(path, {"a": "one"})
    assert read(path, ["a"], dict(reversed(RUN.items()))) == ({"a": "one"}, 0, 0)


def test_a_changed_prompt_is_not_answered_by_an_old_text(path: Path) -> None:
    write(path, {"a": "one"})
    with open_journal(path, RUN) as journal:
        assert journal.get("a", "prompt of a") and journal.get("a", "prompt of a ") is None


def test_the_newest_of_several_lines_counts(path: Path) -> None:
    write(path, {"a": "old"})
    write(path, {"a": "new"})
    assert read(path, ["a"]) == ({"a": "new"}, 0, 0)


@pytest.mark.parametrize("garbage", [b"\x00" * 100, bytes(range(256)) * 3, b"\n\n", b"{}\n", b"00000000 {}\n", b"\xff"])
def test_garbage_is_skipped(path: Path, garbage: bytes) -> None:
    write(path, {"a": "one"})
    path.write_bytes(garbage + (b"" if garbage.endswith(b"\n") else b"\n") + path.read_bytes() + garbage)
    texts, skipped, foreign = read(path, ["a"])
    assert texts == {"a": "one"} and skipped >= 2 and foreign == 0
    write(path, {"b": "two"})
    assert read(path, ["a", "b"])[0] == {"a": "one", "b": "two"}


@pytest.mark.parametrize("body", [b"[1]", b'"text"', b'{"item_id": "a"}', b"not JSON"])
def test_a_line_with_a_right_checksum_and_a_wrong_content_is_skipped(path: Path, body: bytes) -> None:
    from zlib import crc32

    write(path, {"a": "one"})
    path.write_bytes(b"%08x %s\n" % (crc32(body), body) + path.read_bytes())
    assert read(path, ["a"]) == ({"a": "one"}, 1, 0)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(st.characters(exclude_categories=())))
def test_any_text_survives(path: Path, text: str) -> None:
    path.unlink(missing_ok=True)
    write(path, {"a": text, "b": "\ud800 \udfff\ud83d\ude00\u2028\r\x00"})
    assert read(path, ["a", "b"]) == ({"a": text, "b": "\ud800 \udfff\ud83d\ude00\u2028\r\x00"}, 0, 0)


ITEMS = {"a": "one", "b": "two\ntwo", "c": "“three”", "d": ""}


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cut=st.floats(0, 1))
@example(cut=0.76171875)
def test_a_file_cut_at_any_byte_loses_at_most_the_cut_line(path: Path, cut: float) -> None:
    path.unlink(missing_ok=True)
    write(path, ITEMS)
    whole = path.read_bytes()
    kept = whole[: round(cut * len(whole))]
    path.write_bytes(kept)
    # A line that lacks its newline alone is whole: its checksum says so.
    last = kept.rpartition(b"\n")[2]
    unended = last != b"" and last in whole.split(b"\n")
    names = list(ITEMS)[: kept.count(b"\n") + unended]
    texts, skipped, foreign = read(path, list(ITEMS))
    assert texts == {name: ITEMS[name] for name in names}
    assert skipped == (last != b"" and not unended) and foreign == 0
    write(path, {"e": "five"})
    assert read(path, [*ITEMS, "e"])[0] == {**texts, "e": "five"}


def test_a_second_process_is_refused(path: Path) -> None:
    """The lock is of the operating system: it holds between processes and goes with a killed one."""
    script = (
        "import sys\nfrom pathlib import Path\nfrom inference.journal import open_journal\n"
        f"with open_journal(Path({str(path)!r}), {RUN!r}) as journal:\n"
        "    journal.append('a', 'prompt of a', {'text': 'one'})\n    print('open', flush=True)\n    sys.stdin.read()\n"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=REPOSITORY
    )
    try:
        assert other.stdout is not None and other.stdout.readline() == b"open\n"
        with pytest.raises(UserError, match="another process is writing this run"), open_journal(path, RUN):
            pass
    finally:
        other.kill()
        other.communicate()
    assert read(path, ["a"]) == ({"a": "one"}, 0, 0)


def test_two_runs_in_one_folder_do_not_block_each_other(path: Path) -> None:
    with open_journal(path, RUN), open_journal(path.with_name("base-direct-elicitation-test.jsonl"), RUN):
        pass


def test_a_place_that_cannot_be_written_to_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(UserError, match=r"cannot be written there \(Not a directory\)"),
        open_journal(tmp_path / "file" / ".journal" / "run.jsonl", RUN),
    ):
        pass
