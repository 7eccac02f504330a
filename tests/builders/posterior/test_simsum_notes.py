"""The authors' notes in place of ours: read from a CSV, refused where it is not theirs, never to be published."""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from builders.errors import UserError
from builders.hub.checks import check_release
from builders.hub.release import releases
from builders.posterior.benchmark import write_posterior
from builders.posterior.simsum import posterior
from builders.posterior.simsum_notes import instances

COLUMNS = ("asthma", "smoking", "COPD", "hay_fever", "dysp", "cough", "pain", "fever", "nasal", "text")
ROW = dict.fromkeys(COLUMNS, "no") | {"fever": "none", "text": '**History**\nComes for a, b;\nand "c".'}


def write_csv(path: Path, rows: list[dict[str, Any]], delimiter: str = ",") -> Path:
    with path.open("w", newline="", encoding="utf-8") as out:
        writer = csv.DictWriter(out, list(rows[0]), delimiter=delimiter)
        writer.writeheader()
        writer.writerows(rows)
    return path


@pytest.fixture
def authors(tables: Path, tmp_path: Path) -> tuple[Path, list[dict[str, Any]]]:
    """(a CSV of the hundred notes at hand with the columns of SimSUM.csv, its rows)"""
    path = tables / "simsum-notes100.jsonl.gz"
    if not path.is_file():
        pytest.skip(f"{path} is not at hand")
    records = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
    rows = [{**each["tabular"], "text": each["text"], "advanced_text": each["advanced_text"]} for each in records]
    return write_csv(tmp_path / "SimSUM.csv", rows), rows


def test_the_evidence_is_the_note_and_the_posterior_that_of_its_record(
    authors: tuple[Path, list[dict[str, Any]]],
) -> None:
    path, rows = authors
    found = instances(str(path))
    assert len(found) > 40 and {each.split for each in found} == {"train", "validation", "test"}
    states: dict[tuple[tuple[str, str], ...], str] = {}
    for instance in found:
        row = rows[int(instance.instance_id.removeprefix("clinical-simsum-"))]
        assert instance.evidence == (f"Note:\n{row['text'].strip()}",)
        assert instance.state == {name: row[name] for name in COLUMNS[:-1]}
        assert instance.posterior == posterior(instance.state) and "winter" not in instance.state
        assert states.setdefault(tuple(sorted(instance.state.items())), instance.split) == instance.split
    assert len({each.instance_id for each in found}) == len(found)
    assert instances(str(path)) == found == instances(path.as_uri())


def test_a_build_with_them_is_refused_by_the_release(
    authors: tuple[Path, list[dict[str, Any]]], tmp_path: Path
) -> None:
    folder = tmp_path / "posterior"
    write_posterior(folder, ("clinical",), str(authors[0]))
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert "Not for publication" in card and "license:" not in card.split("---")[1]
    (release,) = releases(folder, "acme")
    with pytest.raises(UserError, match="its YAML has no license"):
        check_release(release, {})


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_any_delimiter_and_notes_of_several_lines(tmp_path: Path, delimiter: str) -> None:
    path = write_csv(tmp_path / "notes.csv", [ROW, ROW | {"cough": "yes"}], delimiter)
    assert {each.evidence[0] for each in instances(str(path))} == {f"Note:\n{ROW['text']}"}


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{name: value for name, value in ROW.items() if name != "nasal"}], "no column 'nasal'"),
        ([ROW, ROW | {"fever": "yes"}], "record 1 has 'yes' for fever; there are none, low, high"),
        ([ROW | {"text": " "}], "record 0 has no note"),
    ],
)
def test_a_file_that_is_not_theirs_is_refused(tmp_path: Path, rows: list[dict[str, Any]], message: str) -> None:
    path = write_csv(tmp_path / "notes.csv", rows)
    with pytest.raises(UserError, match=rf"notes\.csv: .*{message}"):
        instances(str(path))


@pytest.mark.parametrize("reference", ["nowhere.csv", "http://127.0.0.1:9/SimSUM.csv", "nonsense://x"])
def test_a_file_that_cannot_be_read_is_named(reference: str) -> None:
    with pytest.raises(UserError, match="cannot be read"):
        instances(reference)
