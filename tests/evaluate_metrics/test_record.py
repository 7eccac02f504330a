"""A report says what it was made from, and is found out when the answers are others."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from builders.artifacts import Artifact
from builders.errors import UserError
from evaluate_metrics.record import check_current, digests, read_record
from evaluate_metrics.report import Report, write_report


def test_the_record_is_that_of_the_report(report: Report, tiny: Any, outputs: Artifact) -> None:
    record = read_record(report.folder)
    assert record.settings() == {"n_resamples": 200, "unit": "case", "seed": 124, "whose": "base"}
    assert record.benchmark == digests(tiny.artifact.path) and record.outputs == [digests(outputs.path)]
    check_current(report.folder, outputs.path)


def test_its_settings_write_the_same_report(report: Report, tiny: Any, outputs: Artifact, tmp_path: Path) -> None:
    again = write_report([outputs], tiny.artifact, tmp_path / "again", **read_record(report.folder).settings())
    assert (again.folder / "measures.csv").read_bytes() == (report.folder / "measures.csv").read_bytes()


def test_a_report_on_other_answers_is_refused(report: Report, outputs: Artifact, tmp_path: Path) -> None:
    other = Path(shutil.copytree(outputs.path, tmp_path / "outputs"))
    run = next(other.glob("base-*/*.parquet"))
    run.unlink()
    with pytest.raises(UserError, match=rf"other answers than those in .*{run.parent.name}"):
        check_current(report.folder, other)


def test_a_report_on_two_folders_is_not_that_of_one(trained_report: Report, trained: list[Artifact]) -> None:
    assert len(read_record(trained_report.folder).outputs) == len(trained) > 1
    with pytest.raises(UserError, match="was made from other answers"):
        check_current(trained_report.folder, trained[0].path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"unit": "galaxy"}, "not the record of a report"),
        ({"whose": "mine"}, "not the record of a report"),
        ({"n_resamples": 0}, "not the record of a report"),
        ({"seed": None}, "not the record of a report"),
        ({"outputs": [1]}, "not the record of a report"),
    ],
)
def test_a_record_that_is_none_is_refused(change: dict[str, Any], message: str, report: Report, tmp_path: Path) -> None:
    content = json.loads((report.folder / "report.json").read_text()) | change
    (tmp_path / "report.json").write_text(json.dumps(content))
    with pytest.raises(UserError, match=message):
        read_record(tmp_path)
    (tmp_path / "report.json").write_text("{")
    with pytest.raises(UserError, match=message):
        read_record(tmp_path)


def test_a_folder_without_a_record_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no report\.json; write the report again"):
        read_record(tmp_path)
