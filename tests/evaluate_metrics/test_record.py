"""A report says what it was made from, and is found out when the answers are others."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from builders.artifacts import Artifact, resolve
from builders.errors import UserError
from evaluate_metrics.record import check_current, digests, read_record
from evaluate_metrics.regret_report import RegretReport, write_regret_report
from evaluate_metrics.regret_scores import Settings
from evaluate_metrics.report import Report, write_report
from tests.evaluate_metrics.regret_tiny import Tiny as KnownTiny
from tests.evaluate_metrics.regret_tiny import bayes, deluded, write_tiny


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
    with pytest.raises(UserError, match=r"has no report\.json or regret\.json; write the report again"):
        read_record(tmp_path)


def test_a_folder_with_two_records_is_refused(report: Report, regret: RegretReport, tmp_path: Path) -> None:
    for folder, name in ((report.folder, "report.json"), (regret.folder, "regret.json")):
        shutil.copy(folder / name, tmp_path)
    with pytest.raises(UserError, match=r"has both report\.json and regret\.json; write the report again"):
        read_record(tmp_path)


# --- The report on regret ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory, hf_caches: dict[str, str]) -> KnownTiny:
    return write_tiny(tmp_path_factory.mktemp("known") / "posterior")


@pytest.fixture(scope="module")
def decided(known: KnownTiny, tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    folder = tmp_path_factory.mktemp("known") / "outputs"
    known.system(folder, deluded)
    known.system(folder, bayes, "weather-sequential")
    return resolve(str(folder), "dataset")


@pytest.fixture(scope="module")
def regret(known: KnownTiny, decided: Artifact, tmp_path_factory: pytest.TempPathFactory) -> RegretReport:
    settings = Settings(20, 7, (2, 4, 6, 8))
    return write_regret_report([decided], known.artifact, tmp_path_factory.mktemp("known") / "report", settings)


def test_the_record_of_a_report_on_regret_is_read_as_well(
    regret: RegretReport, known: KnownTiny, decided: Artifact, tmp_path: Path
) -> None:
    record = read_record(regret.folder)
    assert record.settings() == {"n_resamples": 20, "seed": 7, "trained": (2, 4, 6, 8)} and record.whose is None
    assert record.benchmark == digests(known.artifact.path) and record.outputs == [digests(decided.path)]
    assert record.to_json() == (regret.folder / "regret.json").read_bytes()
    again = write_regret_report([decided], known.artifact, tmp_path / "again", Settings(**record.settings()))
    assert all((again.folder / path.name).read_bytes() == path.read_bytes() for path in regret.files)


def test_all_losses_trained_are_none_set_apart(known: KnownTiny, decided: Artifact, tmp_path: Path) -> None:
    report = write_regret_report([decided], known.artifact, tmp_path, Settings(2))
    assert read_record(report.folder).settings() == {"n_resamples": 2, "seed": 124, "trained": None}


def test_a_report_on_regret_is_held_to_its_answers(regret: RegretReport, decided: Artifact, tmp_path: Path) -> None:
    check_current(regret.folder, decided.path)
    other = Path(shutil.copytree(decided.path, tmp_path / "outputs"))
    shutil.rmtree(other / "base-cot-weather-two_turn")
    with pytest.raises(UserError, match=r"other answers than those in .*base-cot-weather-two_turn"):
        check_current(regret.folder, other)


@pytest.mark.parametrize(
    "change",
    [
        {"unit": "case"},
        {"n_resamples": 0},
        {"seed": None},
        {"outputs": [1]},
        {"trained_thresholds": [0.25]},
        {"trained_thresholds": []},
        {"trained_thresholds": 0.2},
    ],
)
def test_a_record_of_regret_that_is_none_is_refused(
    change: dict[str, Any], regret: RegretReport, tmp_path: Path
) -> None:
    content = json.loads((regret.folder / "regret.json").read_text()) | change
    (tmp_path / "regret.json").write_text(json.dumps(content))
    with pytest.raises(UserError, match=r"regret\.json: not the record of a report") as error:
        read_record(tmp_path)
    assert "\n" not in str(error.value)


def test_one_kind_of_report_is_not_written_over_the_other(
    regret: RegretReport, report: Report, tiny: Any, outputs: Artifact, known: KnownTiny, decided: Artifact
) -> None:
    with pytest.raises(UserError, match="holds a report on regret, with a counts"):
        write_report([outputs], tiny.artifact, regret.folder, 2)
    with pytest.raises(UserError, match="holds another report, with a counts"):
        write_regret_report([decided], known.artifact, report.folder, Settings(2))
