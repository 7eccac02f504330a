from collections import Counter, defaultdict
from typing import Any

import pytest

from builders.benchmark import decidability_rows
from builders.conditions import CELLS, assign_conditions

Case = dict[str, Any]
Conditions = dict[tuple[str, str, str], str]

FIRST_CASE = """
DBCDB
DDBCA
BDADD
DBDDD
CADDD
BDDBC
DBCAB
CDBDD
"""
"""The conditions of credit_default-00: a line for each framing, a letter for each cost pair."""


@pytest.fixture(scope="module")
def conditions(cases: list[Case]) -> Conditions:
    return assign_conditions(cases)


def counted(conditions: Conditions, *parts: int) -> dict[tuple[str, ...], Counter[str]]:
    """Counts of A-D by the given parts of the item: 0 case, 1 framing, 2 cost pair."""
    counts: dict[tuple[str, ...], Counter[str]] = defaultdict(Counter)
    for item, condition in conditions.items():
        counts[tuple(item[part] for part in parts)][condition] += 1
    return counts


def test_half_of_the_items_are_complete_and_the_rest_is_even(conditions: Conditions) -> None:
    counts = Counter(conditions.values())
    assert counts.keys() == set("ABCD")
    assert counts.pop("D") == 4000
    assert sorted(counts.values()) == [1333, 1333, 1334]


def test_half_of_every_cell_is_complete_and_the_rest_differs_by_one_at_most(conditions: Conditions) -> None:
    cells = counted(conditions, 1, 2)
    assert set(cells) == set(CELLS) and len(CELLS) == 40
    for counts in cells.values():
        assert counts.pop("D") == 100
        assert sorted(counts.values()) == [33, 33, 34]


def test_half_of_every_case_is_complete_and_misses_every_kind(conditions: Conditions) -> None:
    by_case = counted(conditions, 0)
    assert len(by_case) == 200
    for counts in by_case.values():
        assert counts["D"] == 20 and counts.total() == 40
        assert min(counts[letter] for letter in "ABC") >= 2


def test_the_order_of_the_cases_of_a_domain_does_not_matter(few_cases: list[Case]) -> None:
    backwards = [
        case for domain in ("student_dropout", "wildfire") for case in few_cases[::-1] if case["domain"] == domain
    ]
    assert assign_conditions(backwards) == assign_conditions(few_cases)


def test_an_appended_domain_changes_no_assignment(cases: list[Case], conditions: Conditions) -> None:
    appended = [{"case_id": f"toy-{number:02d}", "domain": "toy"} for number in range(10)]
    longer = assign_conditions([*cases, *appended])
    assert {item: longer[item] for item in conditions} == conditions
    assert len(longer) == 8400
    assert assign_conditions(cases[:150]).items() <= conditions.items()


def test_styles_and_repetitions_share_the_condition(few_cases: list[Case]) -> None:
    conditions = assign_conditions(few_cases)
    seen: dict[tuple[str, str, str], set[str]] = defaultdict(set)
    rows = list(decidability_rows(few_cases[:4], conditions))
    for row in rows:
        seen[row["case_id"], row["framing"], f"fp{row['cost_fp']}-fn{row['cost_fn']}"].add(row["condition"])
    assert len(rows) == 4 * 40 * 3 * 2 and len(seen) == 4 * 40
    assert all({conditions[item]} == letters for item, letters in seen.items())


def test_an_odd_number_of_cases_in_a_domain_is_refused(few_cases: list[Case]) -> None:
    with pytest.raises(ValueError, match="shorter"):
        assign_conditions(few_cases[:3])


def test_the_first_case_has_the_pinned_conditions(conditions: Conditions) -> None:
    letters = "".join(conditions["credit_default-00", *cell] for cell in CELLS)
    assert [letters[start : start + 5] for start in range(0, 40, 5)] == FIRST_CASE.split()
