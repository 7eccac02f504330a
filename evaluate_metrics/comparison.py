"""Two reports, cell by cell: whether a published table follows from what was published with it.

A row of a table is known by its words (run, slice, measure, ...), its cells are its numbers. Words must be the same,
numbers may differ by the rounding of another machine's arithmetic and no more::

    compare_reports(published, recomputed)  ->  Comparison(cells=25204, differing=())
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from builders.errors import UserError
from evaluate_metrics.regret_report import TABLES as REGRET_TABLES
from evaluate_metrics.report import TABLES

NUMBERS = ("value", "raw", "floor", "n", "low", "high", "n_base", "n_system")
TOLERANCE = 1e-9
"""Largest relative, and near zero absolute, difference of two numbers that count as equal."""

SHOWN = 20

Row = tuple[str, ...]
Cells = dict[str, str]


@dataclass(frozen=True)
class Difference:
    """A cell that is not the same: table, words of its row, column, and both texts, None for no such row."""

    table: str
    row: Row
    column: str
    published: str | None
    recomputed: str | None

    def __str__(self) -> str:
        texts = ["absent" if text is None else text or "empty" for text in (self.published, self.recomputed)]
        return f"{self.table}: {' / '.join(self.row)}: {self.column} was {texts[0]}, is {texts[1]}"


@dataclass(frozen=True)
class Comparison:
    """How many cells were compared, and those that differ."""

    cells: int
    differing: tuple[Difference, ...]

    def lines(self) -> Iterator[str]:
        """What a person is told."""
        if not self.differing:
            yield f"equal: {self.cells:,} cells of the published tables, each recomputed"
            return
        yield f"different: {len(self.differing):,} of {self.cells:,} cells of the published tables"
        yield from (f"  {each}" for each in self.differing[:SHOWN])
        if len(self.differing) > SHOWN:
            yield f"  ... and {len(self.differing) - SHOWN:,} more"


def compare_reports(published: Path, recomputed: Path) -> Comparison:
    """Compares all tables of two reports, of either kind; a table that only one has differs in each of its cells.

    Raises:
        UserError: one is no report.
    """
    differing: list[Difference] = []
    cells = 0
    for table in dict.fromkeys((*TABLES, *REGRET_TABLES)):
        ours, theirs = (_read(folder / table) for folder in (recomputed, published))
        for row in dict.fromkeys((*theirs, *ours)):
            was, now = theirs.get(row), ours.get(row)
            for column in was or now or ():
                cells += 1
                if was is None or now is None or not _same(was[column], now[column]):
                    texts = [None if each is None else each[column] for each in (was, now)]
                    differing.append(Difference(table, row, column, *texts))
    if not cells:
        raise UserError(f"{published}: no tables of a report")
    return Comparison(cells, tuple(differing))


def _read(path: Path) -> dict[Row, Cells]:
    """The words of each row -> its cells; empty for a table that the report does not have."""
    if not path.is_file():
        return {}
    found: dict[Row, Cells] = {}
    try:
        with path.open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file, strict=True):
                words = tuple(str(text) for name, text in row.items() if name not in NUMBERS)
                if words in found:
                    raise UserError(f"{path}: two rows for {' / '.join(words)}")
                found[words] = {name: str(text) for name, text in row.items() if name in NUMBERS}
    except (OSError, ValueError, csv.Error) as error:
        raise UserError(f"{path}: cannot be read as a table ({error})") from error
    return found


def _same(was: str, now: str) -> bool:
    if was == now:
        return True
    try:
        return math.isclose(float(was), float(now), rel_tol=TOLERANCE, abs_tol=TOLERANCE)
    except ValueError:
        return False
