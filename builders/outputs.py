"""Outputs datasets as they are found: the columns of one run's files, held to what a run is (DESIGN §4).

Everybody who reads answers reads them here: SFT rows from elicitations, the router, the report. No card is needed, and
nothing that a file says is trusted before it is checked::

    read_columns("out/outputs: run base-direct-complete, split test", paths)  ->  {"item_id": [...], "text": [...], ...}
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from builders.errors import UserError
from builders.schema import OUTPUTS, ROUTED
from evaluate_metrics.coherence.parsing import Fields, complete_fields, decidability_fields, elicitation_fields

ENOUGH_BELIEFS = 3
"""A case with fewer parseable elicitations has no reference belief (DESIGN §6.6)."""

RESAMPLE = "-resample"
"""How the config name of a second draw ends, the one for the noise floor (P1 Appendix A)."""

Columns = dict[str, list[Any]]


def read_columns(where: str, paths: Sequence[Path]) -> Columns:
    """The columns of a run's parquet files, those of ``ROUTED`` where there is a route, else those of ``OUTPUTS``.

    Raises:
        UserError: a file cannot be read or lacks a column, or there are no answers; the message begins with ``where``.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns: Columns = {}
    for path in paths:
        try:
            table = pq.ParquetFile(path).read()
            wanted = ROUTED if "route" in table.column_names else OUTPUTS
            if absent := [column for column in wanted if column not in table.column_names]:
                raise UserError(f"{where}: no column {absent[0]!r}; is this an outputs folder?")
            table = table.select(list(wanted)).cast(wanted.arrow_schema)
        except (pa.ArrowException, OSError) as error:
            raise UserError(f"{where}: cannot be read ({str(error).splitlines()[0]})") from error
        for column in wanted:
            columns.setdefault(column, []).extend(table[column].to_pylist())
    if not columns.get("item_id"):
        raise UserError(f"{where}: no answers")
    return columns


def one_value(where: str, column: str, values: Iterable[Any]) -> Any:
    """The value that a column has in every row of a run.

    Raises:
        UserError: it has several.
    """
    distinct = sorted(set(values), key=str)
    if len(distinct) != 1:
        raise UserError(f"{where}: {column} has {len(distinct)} values ({listed(distinct)}); a run has one")
    return distinct[0]


def listed(values: Iterable[Any]) -> str:
    """The distinct values in words, in order."""
    return ", ".join(sorted({str(value) for value in values}))


def check_answered_once(where: str, item_ids: Sequence[str]) -> None:
    """Refuses a run that answers an item twice.

    Raises:
        UserError: names the item.
    """
    if len(set(item_ids)) < len(item_ids):
        raise UserError(f"{where}: item {Counter(item_ids).most_common(1)[0][0]} is answered more than once")


def answer_fields(row: Mapping[str, Any]) -> Fields:
    """The fields that the prompt of an elicitation, complete or decidability row asks for."""
    if "framing" not in row:
        return elicitation_fields()
    fields = decidability_fields if "condition" in row else complete_fields
    return fields(row["act_word"], row["hold_word"])
