"""The reference rows of the benchmark, checked and narrowed to the columns that scoring reads.

A row is a row of the benchmark's `complete` or `decidability` config, with a `reference_belief` where distortion is
wanted; any other column is ignored. One real row of `decidability`, narrowed:

    {"case_id": "student_dropout-07", "domain": "student_dropout", "condition": "D", "cost_fp": 10.0, "cost_fn": 1.0,
     "act_word": "BUY PROTECTION", "hold_word": "GO UNINSURED", "reference_belief": 0.34}

"regret" scores decisions whose posterior is known, rows of the P2 benchmark:

    {"instance_id": "synthetic-k1-p17-t1-b3", "ordering": "2", "posterior": 0.34, "cost_fp": 3.0, "cost_fn": 7.0,
     "act_word": "LABEL POSITIVE", "hold_word": "LABEL NEGATIVE"}
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Real
from typing import Any, TypeAlias

CONDITIONS = ("A", "B", "C", "D")
UNITS = {"case": "case_id", "domain": "domain", "item": None}  # unit of the bootstrap -> the column that names it
REGRET_UNITS: dict[str, str | None] = {"instance": "instance_id"}  # of "regret": one evidence, its losses and orderings
Row: TypeAlias = dict[str, Any]


def read_references(references: Any, config_name: str) -> list[Row]:
    """The rows of a Dataset or an iterable of mappings, each with all columns of the config (`columns_of`).

    What a row may lack is then "" or None. Raises ValueError naming the first row that lacks a column or holds a value
    outside its range.
    """
    names = columns_of(config_name)
    rows: Sequence[Mapping[str, Any]]
    if hasattr(references, "select_columns") and hasattr(references, "__len__"):  # a Dataset: leave its prompts be
        kept = references.select_columns([name for name in names if name in references.column_names])
        columns = [kept[name][:] for name in kept.column_names]
        rows = [dict(zip(kept.column_names, row, strict=True)) for row in zip(*columns, strict=True)]
        if not rows and len(references):
            raise ValueError(f"the references have none of the columns {', '.join(names)}")
    else:
        rows = list(references)
    return [_read_row(index, row, config_name) for index, row in enumerate(rows)]


def check_unit(unit: str | None, config_name: str) -> str | None:
    """The column that names the bootstrap unit, None for single items; ValueError for an unknown unit.

    A unit of None is the config's first: "case", and "instance" in "regret".
    """
    units = REGRET_UNITS if config_name == "regret" else UNITS
    if unit is None:
        unit = next(iter(units))
    if unit not in units:
        raise ValueError(f"unit must be one of {', '.join(units)}, got {unit!r}")
    return units[unit]


def _read_row(index: int, row: Any, config_name: str) -> Row:
    if not isinstance(row, Mapping):
        raise ValueError(f"references[{index}] must be a row (a dict), got {type(row).__name__}")
    optional = OPTIONAL if config_name == "decidability" else (*OPTIONAL, "condition")
    read: Row = {}
    for name, check in columns_of(config_name).items():
        value = row.get(name)
        if value is None and name not in optional:
            raise ValueError(f"references[{index}]: column {name!r} is missing; {config_name!r} needs it in every row")
        try:
            read[name] = check(value)
        except ValueError as error:
            raise ValueError(f"references[{index}]: {name} must be {error}, got {value!r:.80}") from None
    if read["act_word"].casefold().split() == read["hold_word"].casefold().split():
        raise ValueError(f"references[{index}]: act_word and hold_word must differ, both are {read['act_word']!r}")
    return read


def _cost(value: Any) -> float:
    if not isinstance(value, Real) or not 0 < float(value) < math.inf:
        raise ValueError("a finite number above 0")
    return float(value)


def _word(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError("a word")
    return str(value)


def _identifier(value: Any) -> str:
    return "" if value is None else str(value)


def _condition(value: Any) -> str:
    if value is not None and value not in CONDITIONS:
        raise ValueError("one of A, B, C, D")
    return "" if value is None else str(value)


def _probability(value: Any) -> float:
    if not isinstance(value, Real) or not 0 <= float(value) <= 1:
        raise ValueError("in [0, 1]")
    return float(value)


def _belief(value: Any) -> float | None:
    """None stays None, and so does the NaN that pandas puts in its place."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if not isinstance(value, Real) or not 0 <= float(value) <= 1:
        raise ValueError("in [0, 1] or null")
    return float(value)


COLUMNS: dict[str, Callable[[Any], Any]] = {
    "case_id": _identifier,
    "domain": _identifier,
    "condition": _condition,
    "cost_fp": _cost,
    "cost_fn": _cost,
    "act_word": _word,
    "hold_word": _word,
    "reference_belief": _belief,
}
REGRET_COLUMNS: dict[str, Callable[[Any], Any]] = {
    "instance_id": _identifier,
    "ordering": _identifier,
    "posterior": _probability,
    **{name: COLUMNS[name] for name in ("cost_fp", "cost_fn", "act_word", "hold_word")},
}
# The unit's own column is asked for when the unit is known.
OPTIONAL = ("case_id", "domain", "reference_belief", "instance_id", "ordering")


def columns_of(config_name: str) -> dict[str, Callable[[Any], Any]]:
    """The columns that a config reads, each with what checks a value of it."""
    return REGRET_COLUMNS if config_name == "regret" else COLUMNS


def unit_names(rows: Iterable[Row], column: str) -> list[str]:
    """The unit of each row; ValueError naming the first row that does not name one."""
    names = [row[column] for row in rows]
    if "" in names:
        raise ValueError(f"references[{names.index('')}]: column {column!r} is missing; the bootstrap resamples by it")
    return names
