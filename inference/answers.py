"""The answers of one adapter's run, read from somebody's outputs dataset and held to what they say they are.

A run is named ``ID`` or ``ID:CONFIG``: ``out/outputs:sft-direct-decidability-full-hedge``. Its columns are those of
``builders.schema.OUTPUTS``; every row must be of the same model, adapter, holdout, style and task.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from builders.artifacts import resolve
from builders.errors import UserError
from builders.holdouts import HOLDOUTS, holdout
from builders.outputs import RESAMPLE, check_answered_once, one_value, read_columns

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
    if config.endswith(RESAMPLE):
        raise UserError(f"{where}: a second draw for the noise floor; give the run that it repeats")
    columns = read_columns(where, sorted((folder / config).glob(f"{split}-*.parquet")))
    if "route" in columns:
        raise UserError(f"{where}: the routed system's; the run of one adapter is needed here")
    same = {column: one_value(where, column, columns[column]) for column in IDENTITY}
    _check_kind(where, same, style, task, left_out)
    check_answered_once(where, columns["item_id"])
    rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    named = {each: same[each] for each in ("model", "model_revision", "adapter", "adapter_revision", "holdout")}
    return Answers(where, **named, rows={row["item_id"]: row for row in rows})


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
