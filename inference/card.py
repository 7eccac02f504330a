"""The card of an outputs folder, made of the parquet files in it, whoever wrote them.

Answers to P1's prompts and to those with known posteriors (P2) are scored in different ways; a card says how its own
are. The runs of its snippet on P2's, the first decisions and the beliefs that go with them::

    Scored("base-cot-weather-independent", "test", "weather", beliefs="base-cot-weather-belief")
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from builders.benchmark import size_category
from builders.errors import UserError
from builders.folders import Written, parquet_path, write_card
from builders.locks import locked
from builders.outputs import RESAMPLE
from builders.repos import BENCHMARK, METRIC, ORG, POSTERIOR, outputs_name
from builders.schema import MEANING, OUTPUTS, POSTERIOR_TASKS, ROUTED
from inference.requests import request_seed

Described = Mapping[str, Any]
"""A run of the folder: config, split, number of rows, and the columns of its first row."""


class Scored(NamedTuple):
    """What the card's snippet scores: a run, the benchmark's config that it answers, on P2's the run of beliefs."""

    config: str
    split: str
    prompts: str
    beliefs: str | None = None


def check_out(out: Path) -> None:
    """The card of an outputs folder is made of the parquet files in it: they must all be outputs, or routed.

    Raises:
        UserError: names a file that is neither.
    """
    import pyarrow.parquet as pq

    for path in sorted(out.glob("*/*.parquet")):
        names = set(pq.read_schema(path).names)
        if not (names >= set(OUTPUTS) or names >= set(ROUTED)):
            raise UserError(f"{out}: holds {path.relative_to(out)}, which is not an outputs file; choose another --out")


def write_outputs_card(out: Path) -> None:
    """(Re)writes the card of an outputs folder from the parquet files that are in it.

    Processes with different runs may share a folder: one at a time, so that the last card names them all.
    """
    with locked(out / ".journal" / "card.lock"):
        _write_outputs_card(out)


def _write_outputs_card(out: Path) -> None:
    from huggingface_hub import DatasetCardData

    found = [_described(out, path) for path in sorted(out.glob("*/*.parquet"))]
    files, runs = [file for file, _ in found], [run for _, run in found]
    routed = [run for run in runs if "route" in run]
    answers = [run for run in runs if "route" not in run]
    models = sorted({run["model"] for run in runs})
    # A folder with answers to both has P1's card; it is refused when it is published.
    known = all(run["task"] in POSTERIOR_TASKS for run in runs)
    benchmark = POSTERIOR if known else BENCHMARK
    data = DatasetCardData(
        pretty_name=f"{'Posterior' if known else 'Coherent'} Decisions outputs of {', '.join(models)}",
        language=["en"],
        license="apache-2.0",
        size_categories=[size_category(files)],
        task_categories=["text-generation"],
        source_datasets=[f"{ORG}/{benchmark}"],
        tags=["coherent-decisions", "model-outputs", "decision-making"],
    )
    write_card(
        out, "outputs", {run["config"]: ROUTED if "route" in run else OUTPUTS for run in runs}, files, data,
        runs=answers, routed=routed, models=models, meaning=MEANING, columns=list(OUTPUTS), routed_columns=list(ROUTED),
        first=(answers + routed)[0], scored=_beside_beliefs(out, answers) if known else _scored(answers), known=known,
        seeds=_base_seeds(answers), load_id=f"{ORG}/{outputs_name(models[0], known)}",
        benchmark_id=f"{ORG}/{benchmark}", metric_id=f"{ORG}/{METRIC}",
    )  # fmt: skip


def _described(out: Path, path: Path) -> tuple[Written, Described]:
    """A run's file, and the run: config, split, number of rows, and the first row for what all rows share."""
    import pyarrow.parquet as pq

    table = pq.ParquetFile(path).metadata
    first = next(pq.ParquetFile(path).iter_batches(1)).to_pylist()[0]
    config, split = path.parent.name, path.name.split("-")[0]
    num_bytes = sum(table.row_group(i).total_byte_size for i in range(table.num_row_groups))
    place = path.relative_to(out).as_posix()
    written = Written(config, split, place, table.num_rows, num_bytes, path.stat().st_size)
    return written, {**first, "config": config, "split": split, "rows": table.num_rows}


def _scored(runs: Sequence[Described]) -> Scored | None:
    """The first run that the metric scores by itself: a decision run that is no second draw."""
    for run in runs:
        if run["task"] not in ("elicitation", *POSTERIOR_TASKS) and not run["config"].endswith(RESAMPLE):
            return Scored(run["config"], run["split"], run["task"])
    return None


def _beside_beliefs(out: Path, runs: Sequence[Described]) -> Scored | None:
    """The first decisions on known posteriors that all have a belief of the same system; None if none have."""
    first_draws = [run for run in runs if not run["config"].endswith(RESAMPLE)]
    for run, belief in itertools.product(first_draws, repeat=2):
        if _goes_on_from(run, belief) and _evidence(out, run) <= _evidence(out, belief):
            return Scored(run["config"], run["split"], run["task"].partition("-")[0], belief["config"])
    return None


def _goes_on_from(run: Described, belief: Described) -> bool:
    """Whether one run has decisions, and the other the same system's beliefs about the same evidence."""
    shared = ("model", "model_revision", "adapter", "adapter_revision", "guided", "style", "split")
    config, _, form = run["task"].partition("-")
    believed = form != "belief" and belief["task"] == f"{config}-belief"
    return believed and all(run[name] == belief[name] for name in shared)


def _evidence(out: Path, run: Described) -> set[tuple[str, str]]:
    """The instance and ordering of every item that a run on known posteriors answers, as the item ids say them."""
    import pyarrow.parquet as pq

    table = pq.ParquetFile(out / parquet_path(run["config"], run["split"])).read(columns=["item_id"])
    return {(item.partition(".")[0], item.rpartition(".")[2]) for item in table["item_id"].to_pylist()}


def _base_seeds(runs: Sequence[Described]) -> list[int]:
    """The base seeds of the runs but for those of second draws; xor undoes itself."""
    first_draws = (run for run in runs if not run["config"].endswith(RESAMPLE) and run["seed"] is not None)
    return sorted({request_seed(run["item_id"], run["seed"]) for run in first_draws})
