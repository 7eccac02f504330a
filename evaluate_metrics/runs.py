"""The runs of outputs folders, each answer beside the benchmark row that it answers, parsed once (DESIGN §4, §7).

A run is one config and split of an outputs folder: one model, with or without an adapter, one style, one task. The
routed system is a run too (see `routed`), and a resample belongs to the run that it repeats. One answer of a run::

    rows[0]   {"item_id": "wildfire-03.insurance.fp10-fn1.complete.direct.r1", "case_id": "wildfire-03", "cost_fp": 10,
               "cost_fn": 1, "framing": "insurance", "domain_status": "held_out", ...}   from the benchmark, no prompt
    texts[0]  "<final>\\nProbability: 0.4\\nDecision: GO UNINSURED\\n</final>"              from the run, as generated
    parsed[0] Parsed(readings={"probability": Reading(0.4, "ok", (21, 24)), ...}, ...)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple
from zlib import crc32

from builders.artifacts import Artifact, load_rows
from builders.errors import UserError
from builders.holdouts import holdout
from builders.outputs import RESAMPLE, Columns, answer_fields, check_answered_once, listed, one_value, read_columns
from builders.schema import BENCHMARK, TASKS
from evaluate_metrics.coherence.parsing import Parsed, parse
from evaluate_metrics.routed import Route, read_routes

if TYPE_CHECKING:
    from datasets import Dataset

Row = dict[str, Any]
Benchmark = Callable[[str, str], "Prompts"]
SETTINGS = ("engine", "engine_version", "temperature", "top_p", "max_tokens")
"""What a run says about how it was generated, beside who answered."""


class Identity(NamedTuple):
    """Who answered: two runs are of the same model only when all five agree, so guided and free are never pooled."""

    model: str
    model_revision: str
    adapter: str | None
    adapter_revision: str | None
    guided: bool


@dataclass(frozen=True, eq=False)
class Run:
    """One config and split of an outputs folder; `rows`, `texts`, `reasons` and `parsed` are one for each answer.

    `settings` are the engine and sampling columns, in words; `prompts` are the prompt texts, still on disk. `config`
    and `holdout` say what an adapter was trained for, `seeds` are the requests'. `resample` holds second draws of some
    prompts, `route` who answered what in a routed run; its style is "routed", and its adapter names the two in it.
    """

    name: str
    config: str
    identity: Identity
    style: str
    task: str
    split: str
    holdout: str | None
    settings: dict[str, str]
    rows: list[Row]
    seeds: list[int]
    texts: list[str]
    reasons: list[str]
    parsed: list[Parsed]
    prompts: Dataset
    resample: Run | None = None
    route: Route | None = None

    @property
    def decoding(self) -> str:
        """`guided` or `free`."""
        return "guided" if self.identity.guided else "free"

    @property
    def cases(self) -> list[str]:
        """The case ids, each once, in the order of the answers."""
        return list(dict.fromkeys(row["case_id"] for row in self.rows))

    def prompt(self, index: int) -> str:
        """The whole user turn of an answer."""
        return str(self.prompts[index]["prompt"])


@dataclass(frozen=True, eq=False)
class Prompts:
    """One split of one benchmark config: its rows without the prompt text, by item id, and the dataset they are in."""

    dataset: Dataset
    rows: list[Row]
    index: dict[str, int]


def load_runs(outputs: Sequence[Artifact], benchmark: Artifact) -> list[Run]:
    """Every run of the outputs folders, by folder, config name and split, a resample within the run that it repeats.

    Raises:
        UserError: a folder has no run, a run is not one model's or not of one known holdout, it answers an item that
            the benchmark lacks, its routes are not those that its texts imply, or it repeats a run that is not there.
    """
    found = [(artifact, *part) for artifact in outputs for part in _parts(artifact)]
    loaded: dict[tuple[str, str], Prompts] = {}

    def prompts(task: str, split: str) -> Prompts:
        if (task, split) not in loaded:
            loaded[task, split] = _load_prompts(benchmark, task, split)
        return loaded[task, split]

    names = _names([(artifact.id, config, split) for artifact, config, split in found])
    return pair_resamples([_load_run(name, *place, prompts) for name, place in zip(names, found, strict=True)])


def _parts(artifact: Artifact) -> list[tuple[str, str]]:
    """The (config, split) pairs of a folder in Hub layout."""
    paths = artifact.path.glob("*/*.parquet")
    parts = sorted({(path.parent.name, path.name.split("-")[0]) for path in paths if path.parent.name[0] != "."})
    if not parts:
        raise UserError(f"{artifact.path}: no runs; an outputs folder holds CONFIG/SPLIT-00000-of-00001.parquet files")
    return parts


def _names(places: Sequence[tuple[str, str, str]]) -> list[str]:
    """The shortest names that tell the runs apart: config, config/split, or folder:config/split, numbered at worst."""
    names = [place[1] for place in places]
    for form in ("{1}/{2}", "{0}:{1}/{2}"):
        often = Counter(names)
        names = [form.format(*place) if often[name] > 1 else name for name, place in zip(names, places, strict=True)]
    often = Counter(names)
    return [f"{name}#{names[:index].count(name) + 1}" if often[name] > 1 else name for index, name in enumerate(names)]


def _load_prompts(benchmark: Artifact, task: str, split: str) -> Prompts:
    dataset = load_rows(benchmark, task, split)
    if absent := [name for name in BENCHMARK[task] if name not in dataset.column_names]:
        raise UserError(f"{benchmark.path}: config {task} has no column {absent[0]!r}; is this the benchmark?")
    names = [name for name in BENCHMARK[task] if name != "prompt"]
    columns = [dataset[name][:] for name in names]
    rows = [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]
    return Prompts(dataset.select_columns(["prompt"]), rows, {row["item_id"]: i for i, row in enumerate(rows)})


class Place(NamedTuple):
    """Where a run lies (in words, for errors), and what names it before its answers are read."""

    name: str
    where: str
    config: str
    split: str
    task: str
    holdout: str | None


def _load_run(name: str, artifact: Artifact, config: str, split: str, benchmark: Benchmark) -> Run:
    where = f"{artifact.path}: run {config}, split {split}"
    columns = read_columns(where, sorted((artifact.path / config).glob(f"{split}-*.parquet")))
    left_out = one_value(where, "holdout", columns["holdout"])
    if left_out is not None:
        try:
            holdout(left_out)
        except UserError as error:
            raise UserError(f"{where}: {error}") from None
    task = one_value(where, "task", columns["task"])
    load = _load_routed if "route" in columns else _load_answers
    return load(Place(name, where, config, split, task, left_out), columns, benchmark)


def _load_answers(place: Place, columns: Columns, benchmark: Benchmark) -> Run:
    where, task = place.where, place.task
    identity = Identity(*(one_value(where, column, columns[column]) for column in Identity._fields))
    style = one_value(where, "style", columns["style"])
    if task not in TASKS:
        raise UserError(f"{where}: no task {task!r}; there are {', '.join(TASKS)}")
    prompts = benchmark(task, place.split)
    indices = _indices(where, columns["item_id"], prompts, style)
    rows = [prompts.rows[index] for index in indices]
    texts = ["" if text is None else text for text in columns["text"]]
    reasons = ["" if reason is None else reason for reason in columns["finish_reason"]]
    return Run(
        name=place.name,
        config=place.config,
        identity=identity,
        style=style,
        task=task,
        split=place.split,
        holdout=place.holdout,
        settings={column: listed(columns[column]) for column in SETTINGS},
        rows=rows,
        seeds=columns["seed"],
        texts=texts,
        reasons=reasons,
        parsed=[
            parse(text, answer_fields(row), reason) for text, row, reason in zip(texts, rows, reasons, strict=True)
        ],
        prompts=prompts.dataset.select(indices),
    )


def _load_routed(place: Place, columns: Columns, benchmark: Benchmark) -> Run:
    """A run of the routed system: its items are the gate's, Direct decidability prompts (P1 §3.4)."""
    where = place.where
    if place.task != "decidability" or place.holdout is None:
        raise UserError(f"{where}: the routed system answers decidability and has a holdout, not {place[4:]}")
    prompts = benchmark(place.task, place.split)
    indices = _indices(where, columns["item_id"], prompts, "direct")
    rows = [prompts.rows[index] for index in indices]
    names = ("gate", "gate_revision", "specialist", "specialist_revision")
    gate, gate_revision, specialist, specialist_revision = (one_value(where, each, columns[each]) for each in names)
    model, model_revision = (one_value(where, each, columns[each]) for each in ("model", "model_revision"))
    answers = read_routes(where, rows, columns)
    route = Route((gate, gate_revision), (specialist, specialist_revision), [each.forwarded for each in answers])
    both = Identity(
        model, model_revision, f"{gate} + {specialist}", f"{gate_revision} + {specialist_revision}", guided=False
    )
    return Run(
        name=place.name,
        config=place.config,
        identity=both,
        style="routed",
        task=place.task,
        split=place.split,
        holdout=place.holdout,
        settings={column: listed(columns[column]) for column in ("engine", "engine_version")},
        rows=rows,
        seeds=[],
        texts=[each.text for each in answers],
        reasons=[each.reason for each in answers],
        parsed=[each.parsed for each in answers],
        prompts=prompts.dataset.select(indices),
        route=route,
    )


def _indices(where: str, item_ids: Sequence[str], prompts: Prompts, style: str) -> list[int]:
    """The benchmark row of each answer."""
    for item_id in item_ids:
        if item_id not in prompts.index:
            raise UserError(f"{where}: item {item_id} is not in the benchmark; give the benchmark that was answered")
    check_answered_once(where, item_ids)
    indices = [prompts.index[item_id] for item_id in item_ids]
    for index in indices:
        if prompts.rows[index]["style"] != style:
            raise UserError(f"{where}: says style {style}, but {prompts.rows[index]['item_id']} is not of that style")
    return indices


def pair_resamples(runs: Sequence[Run]) -> list[Run]:
    """The runs without the resamples among them, each of which becomes its run's `resample`.

    A resample answers some prompts of a run again, as the same model and in the same way, with other seeds. It says so
    in its config name, or its base seed is the run's plus one.

    Raises:
        UserError: a resample's run is not there, answers other items, has the same seeds or two resamples.
    """
    repeated: dict[int, Run] = {}
    repeats: set[int] = set()
    for index, run in enumerate(runs):
        named = run.config.endswith(RESAMPLE)
        alike = [other for other in range(len(runs)) if other != index and _repeats(run, runs[other], named)]
        if named and not alike:
            raise UserError(f"{run.name}: repeats a run that is not among the outputs; give also that run's folder")
        if alike:
            repeats.add(index)
            _check_resample(run, [runs[other] for other in alike], repeated.get(alike[0]))
            repeated[alike[0]] = run
    return [
        replace(run, resample=repeated.get(index)) if index in repeated else run
        for index, run in enumerate(runs)
        if index not in repeats
    ]


def _repeats(run: Run, other: Run, named: bool) -> bool:
    if run.route or other.route or other.config.endswith(RESAMPLE):
        return False
    if any(getattr(run, name) != getattr(other, name) for name in ("identity", "holdout", "task", "style", "split")):
        return False
    if named:
        return True
    first, second = _base_seed(other), _base_seed(run)
    if first is None or second != first + 1:
        return False
    return {row["item_id"] for row in run.rows} <= {row["item_id"] for row in other.rows}


def _base_seed(run: Run) -> int | None:
    """The base seed behind the requests' seeds (DESIGN §6.8), None when it is not one and the same."""
    bases = {(seed ^ crc32(row["item_id"].encode())) % 2**31 for seed, row in zip(run.seeds, run.rows, strict=True)}
    return bases.pop() if len(bases) == 1 else None


def _check_resample(run: Run, repeated: Sequence[Run], earlier: Run | None) -> None:
    first = repeated[0]
    if len(repeated) > 1:
        raise UserError(f"{run.name}: repeats {first.name} or {repeated[1].name}, one cannot tell which; give only one")
    if earlier is not None:
        raise UserError(f"{earlier.name} and {run.name} both repeat {first.name}; give only one")
    seeds = {row["item_id"]: seed for row, seed in zip(first.rows, first.seeds, strict=True)}
    for row, seed in zip(run.rows, run.seeds, strict=True):
        if row["item_id"] not in seeds:
            raise UserError(f"{run.name}: repeats {first.name}, which has no answer to {row['item_id']}")
        if seeds[row["item_id"]] == seed:
            raise UserError(f"{run.name}: item {row['item_id']} has the seed of {first.name}; resample with another")
