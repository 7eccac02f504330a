"""Published and recomputed tables, cell by cell."""

from __future__ import annotations

import csv
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from builders.artifacts import resolve
from builders.errors import UserError
from evaluate_metrics.comparison import compare_reports
from evaluate_metrics.regret_report import RegretReport, write_regret_report
from evaluate_metrics.regret_scores import Settings
from evaluate_metrics.report import Report
from tests.evaluate_metrics.regret_tiny import deluded, mumbling, write_tiny

Row = dict[str, str]


@pytest.fixture
def copy(trained_report: Report, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained_report.folder, tmp_path / "copy"))


def edit(path: Path, change: Callable[[list[Row]], list[Row]]) -> None:
    with path.open(newline="") as file:
        reader = csv.DictReader(file)
        rows, names = change(list(reader)), reader.fieldnames or []
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def scaled(factor: float) -> Callable[[list[Row]], list[Row]]:
    """The first row whose value is not 0, times the factor."""

    def change(rows: list[Row]) -> list[Row]:
        row = next(row for row in rows if row["value"] and float(row["value"]))
        row["value"] = repr(float(row["value"]) * factor)
        return rows

    return change


def test_a_report_is_equal_to_itself_in_any_order_of_rows(trained_report: Report, copy: Path) -> None:
    edit(copy / "measures.csv", lambda rows: rows[::-1])
    comparison = compare_reports(trained_report.folder, copy)
    assert comparison.differing == ()
    cells = {"measures.csv": 4, "systems.csv": 4, "counts.csv": 1, "points.csv": 6}
    lengths = {name: len((copy / name).read_text().splitlines()) - 1 for name in cells}
    assert comparison.cells == sum(cells[name] * lengths[name] for name in cells)
    assert list(comparison.lines()) == [f"equal: {comparison.cells:,} cells of the published tables, each recomputed"]


def test_another_machines_rounding_is_no_difference(trained_report: Report, copy: Path) -> None:
    edit(copy / "systems.csv", scaled(1 + 1e-12))
    assert compare_reports(trained_report.folder, copy).differing == ()


@pytest.mark.parametrize("table", ["measures.csv", "systems.csv", "points.csv"])
def test_a_number_that_is_another_is_told(table: str, trained_report: Report, copy: Path) -> None:
    edit(copy / table, scaled(1 + 1e-6))
    (difference,) = compare_reports(trained_report.folder, copy).differing
    assert (difference.table, difference.column) == (table, "value")
    assert str(difference).startswith(f"{table}: ") and " was " in str(difference)


def test_a_row_or_a_table_that_is_missing_differs(trained_report: Report, copy: Path) -> None:
    edit(copy / "measures.csv", lambda rows: rows[1:])
    (copy / "points.csv").unlink()
    comparison = compare_reports(trained_report.folder, copy)
    of_points = [each for each in comparison.differing if each.table == "points.csv"]
    assert len(comparison.differing) == 4 + len(of_points) and of_points[0].recomputed is None
    lines = list(comparison.lines())
    assert lines[0].startswith(f"different: {len(comparison.differing):,} of") and lines[-1].endswith(" more")
    assert "is absent" in lines[1]


def test_an_empty_cell_is_not_zero(trained_report: Report, copy: Path) -> None:
    def change(rows: list[Row]) -> list[Row]:
        next(row for row in rows if not row["value"])["value"] = "0.0"
        return rows

    edit(copy / "measures.csv", change)
    (difference,) = compare_reports(trained_report.folder, copy).differing
    assert str(difference).endswith("was empty, is 0.0")


def test_two_rows_of_the_same_words_are_refused(trained_report: Report, copy: Path) -> None:
    edit(copy / "counts.csv", lambda rows: [rows[0], *rows])
    with pytest.raises(UserError, match=r"counts\.csv: two rows for"):
        compare_reports(trained_report.folder, copy)


# --- The report on regret ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def regret(tmp_path_factory: pytest.TempPathFactory, hf_caches: dict[str, str]) -> RegretReport:
    folder = tmp_path_factory.mktemp("known")
    tiny = write_tiny(folder / "posterior")
    tiny.system(folder / "outputs", deluded)
    tiny.system(folder / "outputs", mumbling, "weather-sequential")
    outputs = resolve(str(folder / "outputs"), "dataset")
    return write_regret_report([outputs], tiny.artifact, folder / "report", Settings(20, trained=(2, 4)))


@pytest.fixture
def known(regret: RegretReport, tmp_path: Path) -> Path:
    return Path(shutil.copytree(regret.folder, tmp_path / "known"))


def test_a_report_on_regret_is_compared_cell_by_cell(regret: RegretReport, known: Path) -> None:
    edit(known / "differences.csv", lambda rows: rows[::-1])
    comparison = compare_reports(regret.folder, known)
    cells = {"regret.csv": 4, "differences.csv": 6, "counts.csv": 1}
    lengths = {name: len((known / name).read_text().splitlines()) - 1 for name in cells}
    assert comparison.differing == () and min(lengths.values()) > 0
    assert comparison.cells == sum(cells[name] * lengths[name] for name in cells)


@pytest.mark.parametrize("table", ["regret.csv", "differences.csv", "counts.csv"])
def test_another_number_in_any_of_its_tables_is_told(table: str, regret: RegretReport, known: Path) -> None:
    edit(known / table, scaled(1 + 1e-6))
    (difference,) = compare_reports(regret.folder, known).differing
    assert str(difference).startswith(f"{table}: tiny/agent / ") and difference.column == "value"


def test_other_items_that_both_read_are_told(regret: RegretReport, known: Path) -> None:
    def change(rows: list[Row]) -> list[Row]:
        rows[0]["n_system"] = "1"
        return rows

    edit(known / "differences.csv", change)
    (difference,) = compare_reports(regret.folder, known).differing
    assert (difference.column, difference.recomputed) == ("n_system", "1")


def test_reports_of_two_kinds_have_no_cell_in_common(regret: RegretReport, trained_report: Report) -> None:
    comparison = compare_reports(regret.folder, trained_report.folder)
    assert len(comparison.differing) == comparison.cells


def test_a_folder_without_tables_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no tables of a report"):
        compare_reports(tmp_path, tmp_path)
