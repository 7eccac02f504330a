"""The answers of one adapter's run, read from somebody's outputs dataset and held to what they say they are.

A run is named ``ID`` or ``ID:CONFIG``: ``out/outputs:sft-direct-decidability-full-hedge``. Its columns are those of
``builders.schema.OUTPUTS``; every row must be of the same model, adapter, holdout, style and task.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from builders.artifacts import resolve
from builders.errors import UserError
from builders.holdouts import HOLDOUTS, holdout
from builders.schema import OUTPUTS
from inference.resample import SUFFIX

IDENTITY = (
    "model", "model_revision", "adapter", "adapter_revision", "holdout", "engine", "engine_version", "style", "task",
    "guided",
)  # fmt: skip
"""Columns that have one value in all rows of a run."""


@dataclass(frozen=True)
class Answers:
    """A run's answers: where they were read, their common columns, and the rows by item id in the run's order."""

    where: str
    model: str
    model_revision: str
    adapter: str
    adapter_revision: str
    holdout: str
    rows: Mapping[str, Mapping[str, Any]]


def split_reference(reference: str) -> tuple[str, str | None]:
    """(id or folder, config) of ``ID`` or ``ID:CONFIG``; a folder whose name has a colon is meant as a folder."""
    name, _, config = reference.rpartition(":")
    if Path(reference).expanduser().is_dir() or not name or "/" in config:
        return reference, None
    return name, config


def read_answers(reference: str, style: str, task: str, split: str, left_out: str | None = None) -> Answers:
    """The answers of an adapter to the prompts of one style and task.

    Args:
        reference: ``ID`` or ``ID:CONFIG``; without a config the one ``sft-<style>-<task>-<holdout>`` that there is.
        style: of the run that is wanted.
        task: of the run that is wanted.
        split: train, validation or test.
        left_out: the framing holdout that is wanted; any when None.

    Raises:
        UserError: there is no such run, or more than one, or it is a run of another kind.
    """
    if left_out is not None:
        holdout(left_out)
    name, config = split_reference(reference)
    folder = resolve(name, "dataset").path
    if config is None:
        config = _only_config(folder, f"sft-{style}-{task}", left_out)
    where = f"{folder}: run {config}, split {split}"
    if config.endswith(SUFFIX):
        raise UserError(f"{where}: a second draw for the noise floor; give the run that it repeats")
    rows = _read(where, sorted(folder.glob(f"*/{split}-*.parquet")), config)
    same = {column: _common(where, column, rows) for column in IDENTITY}
    _check_kind(where, same, style, task, left_out)
    by_item = {row["item_id"]: row for row in rows}
    if len(by_item) < len(rows):
        raise UserError(f"{where}: {len(rows) - len(by_item)} items are answered more than once")
    named = {each: same[each] for each in ("model", "model_revision", "adapter", "adapter_revision", "holdout")}
    return Answers(where, **named, rows=by_item)


def _only_config(folder: Path, family: str, left_out: str | None) -> str:
    names = {f"{family}-{each.name}" for each in HOLDOUTS if left_out in (None, each.name)}
    there = sorted({path.parent.name for path in folder.glob("*/*.parquet")})
    found = [name for name in there if name in names]
    if not found:
        wanted = f"{family}-{left_out or 'HOLDOUT'}"
        raise UserError(f"{folder}: no run {wanted}; there are {', '.join(there) or 'no runs'}")
    if len(found) > 1:
        raise UserError(f"{folder}: {len(found)} runs fit: {', '.join(found)}; give --holdout or ID:CONFIG")
    return found[0]


def _read(where: str, paths: Sequence[Path], config: str) -> list[dict[str, Any]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows: list[dict[str, Any]] = []
    for path in paths:
        if path.parent.name != config:
            continue
        try:
            table = pq.ParquetFile(path).read()
            if absent := [name for name in OUTPUTS if name not in table.column_names]:
                raise UserError(f"{where}: no column {absent[0]!r}; these are not the outputs of one model")
            rows += table.select(list(OUTPUTS)).cast(OUTPUTS.arrow_schema).to_pylist()
        except (pa.ArrowException, OSError) as error:
            raise UserError(f"{where}: cannot be read ({str(error).splitlines()[0]})") from error
    if not rows:
        raise UserError(f"{where}: no answers")
    return rows


def _common(where: str, column: str, rows: Sequence[Mapping[str, Any]]) -> Any:
    values = sorted({row[column] for row in rows}, key=str)
    if len(values) > 1:
        raise UserError(f"{where}: {column} has {len(values)} values ({values[0]}, {values[1]} ...); a run has one")
    return values[0]


def _check_kind(where: str, same: Mapping[str, Any], style: str, task: str, left_out: str | None) -> None:
    if (same["style"], same["task"]) != (style, task):
        raise UserError(f"{where}: a {same['style']} {same['task']} run; a {style} {task} run is needed here")
    if same["adapter"] is None or same["holdout"] is None:
        raise UserError(f"{where}: not the run of an adapter that was trained with a framing holdout")
    if same["guided"]:
        raise UserError(f"{where}: a guided run; the routed system is made of free ones")
    holdout(same["holdout"])
    if left_out not in (None, same["holdout"]):
        raise UserError(f"{where}: of the holdout {same['holdout']}, not {left_out}")
