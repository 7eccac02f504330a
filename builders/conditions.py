"""The assignment of the information conditions A-D to case-utility-framing items (P1 §3.4).

Half of the items are D (complete); A (false-positive cost withheld), B (false-negative cost withheld) and C (both)
share the rest evenly: 4,000 D and 1,334 / 1,333 / 1,333 of A / B / C on the 8,000 items of the benchmark. Every cell of
framing and utility has exactly half D, every case half of its 40 items, and A, B, C differ by at most one in a cell.
Repetitions and styles of an item share its condition.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Any

from builders.cases import order
from builders.framings import FRAMINGS
from builders.utilities import COST_PAIRS

CONDITIONS = ("A", "B", "C", "D")
CELLS = tuple((framing.name, costs.name) for framing in FRAMINGS for costs in COST_PAIRS)
"""The 40 framing-utility cells of a case, framing first."""

Item = tuple[str, str, str]
"""(case_id, framing, cost pair), e.g. ``("student_dropout-07", "insurance", "fp10-fn1")``."""


def assign_conditions(cases: Iterable[Mapping[str, Any]]) -> dict[Item, str]:
    """The condition of every item of the cases, which must come in order of domain, an even number for each.

    Cases of a domain are paired by hash. In a pair, half of the cells, drawn by hash, are D for the first case and the
    other half for the second. In a cell, the items that are not D take A, B, C in turn, each cell starting one further.
    """
    conditions: dict[Item, str] = {}
    withheld: dict[tuple[str, str], list[str]] = {cell: [] for cell in CELLS}
    for _, group in groupby(cases, key=lambda case: case["domain"]):
        case_ids = sorted((case["case_id"] for case in group), key=lambda case_id: order("pair", case_id))
        for first, second in zip(case_ids[::2], case_ids[1::2], strict=True):
            shuffled = sorted(CELLS, key=lambda cell: order("complete", first, *cell))
            half = set(shuffled[: len(CELLS) // 2])
            for cell in CELLS:
                complete, incomplete = (first, second) if cell in half else (second, first)
                conditions[(complete, *cell)] = "D"
                withheld[cell].append(incomplete)
    for start, (cell, case_ids) in enumerate(withheld.items()):
        for turn, case_id in enumerate(case_ids, start=start):
            conditions[(case_id, *cell)] = "ABC"[turn % 3]
    return conditions
