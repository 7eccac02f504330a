"""The runs of outputs folders, each answer beside the benchmark row that it answers, parsed once (DESIGN §4, §7).

A run is one config and split of an outputs folder: one model, one style, one task. One answer of a run::

    rows[0]   {"item_id": "wildfire-03.insurance.fp10-fn1.complete.direct.r1", "case_id": "wildfire-03", "cost_fp": 10,
               "cost_fn": 1, "framing": "insurance", "domain_status": "held_out", ...}   from the benchmark, no prompt
    texts[0]  "<final>\\nProbability: 0.4\\nDecision: GO UNINSURED\\n</final>"              from the run, as generated
    parsed[0] Parsed(readings={"probability": Reading(0.4, "ok", (21, 24)), ...}, ...)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from builders.artifacts import Artifact, load_rows
from builders.errors import UserError
from builders.schema import BENCHMARK, OUTPUTS, TASKS
from evaluate_metrics.coherence.parsing import (
    Fields,
    Parsed,
    complete_fields,
    decidability_fields,
    elicitation_fields,
    parse,
)

if TYPE_CHECKING:
    from datasets import Dataset

Row = dict[str, Any]
Benchmark = Callable[[str, str], "Prompts"]

FIELDS: dict[str, Callable[[Row], Fields]] = {
    "elicitation": lambda row: elicitation_fields(),
    "complete": lambda row: complete_fields(row["act_word"], row["hold_word"]),
    "decidability": lambda row: decidability_fields(row["act_word"], row["hold_word"]),
}
"""task -> the answer fields that a benchmark row of the task asks for."""

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

    `settings` are the engine and sampling columns, in words; `prompts` are the prompt texts, still on disk.
    """

    name: str
    identity: Identity
    style: str
    task: str
    split: str
    settings: dict[str, str]
    rows: list[Row]
    texts: list[str]
    reasons: list[str]
    parsed: list[Parsed]
    prompts: Dataset

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
    """Every run of the outputs folders, in order of folder, config name and split.

    Raises:
        UserError: a folder has no run, a run is not one model's, or it answers an item that the benchmark lacks.
    """
    found = [(artifact, *part) for artifact in outputs for part in _parts(artifact)]
    loaded: dict[tuple[str, str], Prompts] = {}

    def prompts(task: str, split: str) -> Prompts:
        if (task, split) not in loaded:
            loaded[task, split] = _load_prompts(benchmark, task, split)
        return loaded[task, split]

    names = _names([(artifact.id, config, split) for artifact, config, split in found])
    return [_load_run(name, *place, prompts) for name, place in zip(names, found, strict=True)]


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


def _load_run(name: str, artifact: Artifact, config: str, split: str, benchmark: Benchmark) -> Run:
    where = f"{artifact.path}: run {config}, split {split}"
    columns = _read_columns(where, sorted((artifact.path / config).glob(f"{split}-*.parquet")))
    identity = Identity(*(_only(where, column, columns[column]) for column in Identity._fields))
    task, style = (_only(where, column, columns[column]) for column in ("task", "style"))
    if task not in TASKS:
        raise UserError(f"{where}: no task {task!r}; there are {', '.join(TASKS)}")
    prompts = benchmark(task, split)
    indices = _indices(where, columns["item_id"], prompts, style)
    rows = [prompts.rows[index] for index in indices]
    texts = ["" if text is None else text for text in columns["text"]]
    reasons = ["" if reason is None else reason for reason in columns["finish_reason"]]
    fields = FIELDS[task]
    parsed = [parse(text, fields(row), reason) for text, row, reason in zip(texts, rows, reasons, strict=True)]
    settings = {column: _listed(columns[column]) for column in SETTINGS}
    chosen = prompts.dataset.select(indices)
    return Run(name, identity, style, task, split, settings, rows, texts, reasons, parsed, chosen)


def _read_columns(where: str, paths: Sequence[Path]) -> dict[str, list[Any]]:
    """The columns of an outputs dataset from its files: no card is needed to score what was generated."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns: dict[str, list[Any]] = {column: [] for column in OUTPUTS}
    for path in paths:
        try:
            table = pq.ParquetFile(path).read()
        except (pa.ArrowInvalid, OSError) as error:
            raise UserError(f"{where}: cannot be read ({str(error).splitlines()[0]})") from error
        if absent := [column for column in OUTPUTS if column not in table.column_names]:
            raise UserError(f"{where}: no column {absent[0]!r}; is this an outputs folder?")
        for column, values in columns.items():
            values += table[column].to_pylist()
    if not columns["item_id"]:
        raise UserError(f"{where}: no answers")
    return columns


def _only(where: str, column: str, values: Iterable[Any]) -> Any:
    distinct = sorted(set(values), key=str)
    if len(distinct) != 1:
        raise UserError(f"{where}: {column} has {len(distinct)} values ({_listed(distinct)}); a run has one")
    return distinct[0]


def _listed(values: Iterable[Any]) -> str:
    return ", ".join(sorted({str(value) for value in values}))


def _indices(where: str, item_ids: Sequence[str], prompts: Prompts, style: str) -> list[int]:
    """The benchmark row of each answer."""
    for item_id in item_ids:
        if item_id not in prompts.index:
            raise UserError(f"{where}: item {item_id} is not in the benchmark; give the benchmark that was answered")
    if len(set(item_ids)) < len(item_ids):
        raise UserError(f"{where}: item {Counter(item_ids).most_common(1)[0][0]} is answered more than once")
    indices = [prompts.index[item_id] for item_id in item_ids]
    for index in indices:
        if prompts.rows[index]["style"] != style:
            raise UserError(f"{where}: says style {style}, but {prompts.rows[index]['item_id']} is not of that style")
    return indices
