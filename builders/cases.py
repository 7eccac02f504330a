"""The 200 evidence cases (P1 §3.2): ten rows of every domain, five of each outcome, rendered as prose and frozen.

Rows are drawn by hash, not by a random generator: the eligible rows of a domain are ordered by
SHA-256(``124:<domain>:<row key>``) and the first five of each outcome are taken, so that the draw depends neither on a
library's random stream nor on the order of the table. One row of the frozen file::

    {"case_id": "student_dropout-07", "domain": "student_dropout", "domain_status": "seen", "split": "validation",
     "setup": "You are an academic advisor ...", "event": "the student drops out ...", "evidence": "A 19-year-old ...",
     "outcome": 0, "source": "uci:697", "source_row": "1203", "covariates": "{\"Age at enrollment\": 19, ...}"}
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from builders.domain import Domain, Row
from builders.domains import DOMAINS
from builders.errors import UserError
from builders.tables import table_files

SEED = 124
CASES_PER_OUTCOME = 5
FROZEN = Path(__file__).parent / "cases.jsonl"
SPLITS = ("train", "train", "train", "validation", "test")
"""Split of a seen domain's n-th case of either outcome: 6 / 2 / 2 cases, balanced by outcome (P1 §3.3, 60/20/20)."""

Case = dict[str, Any]


def order(*parts: object) -> bytes:
    """The sort key that stands for a seeded shuffle: SHA-256 of the seed and the parts."""
    return hashlib.sha256(":".join(map(str, (SEED, *parts))).encode()).digest()


def frozen_cases() -> list[Case]:
    """The 200 cases that ship with the package, in order of domain and case id."""
    return [json.loads(line) for line in FROZEN.read_text(encoding="utf-8").splitlines()]


def in_order(cases: Iterable[Case], domains: Sequence[Domain] = DOMAINS) -> list[Case]:
    """Cases of any order in that of the frozen ones, on which the assignment of conditions depends."""
    place = {domain.name: index for index, domain in enumerate(domains)}
    return sorted(cases, key=lambda case: (place[case["domain"]], int(case["case_id"].rpartition("-")[2])))


def derive_cases(domain: Domain, tables: Path | None, frozen: Sequence[Case] = ()) -> list[Case]:
    """The domain's ten cases from its source table.

    Where only pieces of the original table are known (``source.partial``), the rows are those of ``frozen``, looked up
    by key, so that the pieces and the complete original give the same cases; with no frozen case they are drawn.

    Raises:
        UserError: the table is missing or altered, a frozen row is not in it, or it has too few eligible rows.
    """
    files = table_files(domain.source, tables)
    try:
        rows = _keyed(domain, domain.read(files))
    except (KeyError, ValueError, IndexError) as error:
        raise UserError(f"{domain.name}: the table is not laid out as {domain.source.title} ({error!r})") from error
    keys = {case["source_row"] for case in frozen if case["domain"] == domain.name} if domain.source.partial else set()
    if absent := keys - rows.keys():
        raise UserError(f"{domain.name}: row {min(absent)} of the frozen cases is not in the table")
    chosen = _draw(domain, {key: rows[key] for key in keys} or rows)
    return [
        _case(domain, index, *each)
        for index, each in enumerate(sorted(chosen, key=lambda c: order("index", domain.name, c[0])))
    ]


def _keyed(domain: Domain, rows: Iterable[Row]) -> dict[str, Row]:
    keyed = {domain.key(row) if domain.key else str(number): row for number, row in enumerate(rows, start=1)}
    if not domain.source.partial and len(keyed) != domain.source.rows:
        raise UserError(f"{domain.name}: the table has {len(keyed):,} rows, {domain.source.rows:,} expected")
    if absent := [name for name in domain.covariates if name not in next(iter(keyed.values()), {})]:
        raise UserError(f"{domain.name}: the table has no column {absent[0]!r}")
    return keyed


def _draw(domain: Domain, rows: dict[str, Row]) -> list[tuple[str, Row, int, str]]:
    """(key, row, outcome, split) of the first eligible rows of either outcome; no two with the same evidence."""
    chosen: list[tuple[str, Row, int, str]] = []
    wanted = {0: list(SPLITS), 1: list(SPLITS)}
    seen: set[str] = set()
    for key in sorted(rows, key=lambda key: order(domain.name, key)):
        row = rows[key]
        outcome = domain.outcome(row)
        if outcome is None or not wanted[outcome] or any(row[name] in domain.missing for name in domain.covariates):
            continue
        if (evidence := domain.evidence(row)) not in seen:
            seen.add(evidence)
            chosen.append((key, row, outcome, wanted[outcome].pop(0)))
    if len(chosen) != 2 * CASES_PER_OUTCOME:
        raise UserError(
            f"{domain.name}: only {len(chosen)} of {2 * CASES_PER_OUTCOME} rows can be drawn from the table"
        )
    return chosen


def _case(domain: Domain, index: int, key: str, row: Row, outcome: int, split: str) -> Case:
    return {
        "case_id": f"{domain.name}-{index:02d}",
        "domain": domain.name,
        "domain_status": domain.status,
        "split": split if domain.status == "seen" else "test",
        "setup": domain.setup,
        "event": domain.event,
        "evidence": domain.evidence(row),
        "outcome": outcome,
        "source": domain.source.id,
        "source_row": key,
        "covariates": json.dumps({name: _value(row[name]) for name in domain.covariates}, ensure_ascii=False),
    }


def _value(cell: str) -> int | float | str:
    if re.fullmatch(r"-?\d+", cell):
        return int(cell)
    return float(cell) if re.fullmatch(r"-?\d*\.?\d+([eE][-+]?\d+)?", cell) else cell


def derive_all(tables: Path | None, domains: Sequence[Domain] = DOMAINS) -> str:
    """The text of the frozen file, derived from the tables: one JSON object per line, domains in their order."""
    frozen = frozen_cases() if FROZEN.is_file() else []
    cases = [case for domain in domains for case in derive_cases(domain, tables, frozen)]
    return "".join(json.dumps(case, ensure_ascii=False) + "\n" for case in cases)
