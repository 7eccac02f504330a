"""The prompts of the benchmark with known posteriors (P2) as rows to answer; the second turns after the first answers.

A run's task is config and format, its style ``cot``: the prompts allow reasoning. The first turn of a ``two_turn`` row
is the belief prompt with the same model's own answer, read from the outputs of the belief run::

    {"item_id": "weather-0a1b2c3d.two_turn.fp3-fn7.o1", "turns": ("You are on duty ...", "<final>\\nProbability: ..."),
     "prompt": "You have just given a probability that ...", "act_word": "ISSUE WARNING", ...}
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from builders.artifacts import Artifact, load_rows
from builders.errors import UserError
from builders.folders import parquet_path
from builders.outputs import one_value, read_columns

Row = dict[str, Any]


def posterior_rows(
    benchmark: Artifact,
    task: str,
    split: str,
    orderings: Collection[int] = (),
    limit: int | None = None,
    losses: int | None = None,
) -> list[Row]:
    """The rows of one config and format in the benchmark's order; second turns come without the first ones.

    Args:
        benchmark: the benchmark with known posteriors.
        task: ``<config>-<format>``.
        split: train, validation or test.
        orderings: only these orders of an instance's evidence; all when empty.
        limit: that many instances, evenly spaced over the split's, so that their posteriors keep their spread.
        losses: that many of the nine pairs of costs, evenly spaced, the same for all instances.

    Raises:
        UserError: the benchmark has no such rows.
    """
    config, _, form = task.partition("-")
    rows: list[Row] = load_rows(benchmark, config, split).to_list()
    kept = set(_spaced(list(dict.fromkeys(row["instance_id"] for row in rows)), limit))
    costs = set(_spaced(sorted({row["cost_fp"] for row in rows if row["cost_fp"] is not None}), losses))
    chosen = [
        row
        for row in rows
        if row["format"] == form
        and row["instance_id"] in kept
        and (not orderings or row["ordering"] in orderings)
        and (form == "belief" or row["cost_fp"] in costs)
    ]
    if not chosen:
        raise UserError(f"no prompt of {task} in {split} has ordering {', '.join(map(str, orderings)) or 'at all'}")
    return chosen


def _spaced(values: Sequence[Any], count: int | None) -> list[Any]:
    kept = len(values) if count is None else min(count, len(values))
    return [values[i * len(values) // kept] for i in range(kept)]


def with_first_turns(rows: Sequence[Row], beliefs: Mapping[str, str], benchmark: Artifact, split: str) -> list[Row]:
    """Second turns with the conversation before them.

    Args:
        rows: of one ``two_turn`` task.
        beliefs: item id of a belief row -> the answer to it.
        benchmark: where the rows are from.
        split: the rows'.

    Raises:
        UserError: the belief that a row follows was not answered.
    """
    config = rows[0]["item_id"].partition("-")[0]
    prompts = {row["item_id"]: row["prompt"] for row in posterior_rows(benchmark, f"{config}-belief", split)}
    if absent := [row["first_item_id"] for row in rows if row["first_item_id"] not in beliefs]:
        raise UserError(
            f"{len(absent)} second turns follow a belief that was not answered ({absent[0]}, for instance); answer the "
            f"task {config}-belief first, with no smaller --limit"
        )
    return [{**row, "turns": (prompts[row["first_item_id"]], beliefs[row["first_item_id"]])} for row in rows]


def read_beliefs(folder: Path, config: str, split: str, model: Artifact, adapter: str | None) -> dict[str, str]:
    """Item id -> answer of a belief run in an outputs folder, of the model and adapter that go on from it.

    Args:
        folder: the outputs.
        config: the run's.
        split: the run's.
        model: that goes on.
        adapter: revision of its adapter, None without.

    Raises:
        UserError: there is no such run, or it is another model's.
    """
    path = folder / parquet_path(config, split)
    where = f"{folder}: run {config}, split {split}"
    if not path.is_file():
        raise UserError(f"{where}: not there; second turns follow the answers to the belief prompts, give them first")
    columns = read_columns(where, [path])
    own = {"model": model.id, "model_revision": model.revision, "adapter_revision": adapter}
    for name, value in own.items():
        if (found := one_value(where, name, columns[name])) != value:
            raise UserError(f"{where}: {name} is {found!r}, not {value!r}; a conversation has one model")
    return dict(zip(columns["item_id"], columns["text"], strict=True))
