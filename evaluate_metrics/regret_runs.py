"""Answers on the benchmark with known posteriors: each decision beside the same system's belief (P2 §3, §5).

A run answers one format of one config. The belief run of a system goes with its `independent` run by instance and
ordering, and with its `two_turn` run through `first_item_id`: there the belief is the first turn of the conversation.
One decision of a system::

    rows[0]       {"item_id": "weather-0a1b2c3d.two_turn.fp3-fn7.o1", "instance_id": "weather-0a1b2c3d", "ordering": 1,
                   "posterior": 0.174, "cost_fp": 3, "cost_fn": 7, ...}        from the benchmark, no prompt
    decisions[0]  Said(text="<final>\\nDecision: NO WARNING\\n</final>", parsed=Parsed(...))
    beliefs[0]    Said(text="<final>\\nProbability: 0.2\\n</final>", parsed=Parsed(...))
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from builders.artifacts import Artifact, load_rows
from builders.errors import UserError
from builders.outputs import RESAMPLE, Columns, check_answered_once, listed, one_value, read_columns
from builders.schema import FORMATS, POSTERIOR, POSTERIOR_ROW, POSTERIOR_TASKS
from evaluate_metrics.coherence.parsing import Parsed, decision_fields, elicitation_fields, parse
from evaluate_metrics.coherence.references import read_references
from evaluate_metrics.points import order_models
from evaluate_metrics.runs import SETTINGS, Identity, Row

if TYPE_CHECKING:
    from datasets import Dataset

CONFIGS = tuple(POSTERIOR)
DECIDED = tuple(form for form in FORMATS if form != "belief")
"""The formats whose rows are decisions."""


class System(NamedTuple):
    """Who answered, and in which style: all that two runs must share to be of one system."""

    identity: Identity
    style: str

    @property
    def base(self) -> System:
        """The same model without an adapter, decoded in the same way."""
        return self._replace(identity=self.identity._replace(adapter=None, adapter_revision=None))


class Said(NamedTuple):
    """One answer as it was generated, and what was read from it."""

    text: str
    parsed: Parsed


@dataclass(frozen=True, eq=False)
class Known:
    """One split of one config of the benchmark: its rows without prompts, by item id, and the dataset they are in."""

    dataset: Dataset
    rows: list[Row]
    index: dict[str, int]

    def prompt(self, item_id: str) -> str:
        """The user turn of an item; of `two_turn` the second one."""
        return str(self.dataset[self.index[item_id]]["prompt"])


@dataclass(frozen=True, eq=False)
class Run:
    """One run as it was read: a system's answers, by row number of the benchmark and in that order."""

    name: str
    system: System
    config: str
    split: str
    form: str
    settings: dict[str, str]
    said: dict[int, Said]
    known: Known

    @property
    def answerer(self) -> str:
        """``base``, what an adapter was trained for where the run's name tells, else the adapter's own name."""
        adapter = self.system.identity.adapter
        if adapter is None:
            return "base"
        ending = re.escape(f"-{self.system.style}-{self.config}-{self.form}")
        trained = re.fullmatch(rf"grpo-(?:guided-)?(.+){ending}", self.name)
        return trained[1] if trained else adapter.rpartition("/")[2]

    @property
    def key(self) -> tuple[System, str, str, str]:
        """What only one run may have."""
        return self.system, self.config, self.split, self.form


@dataclass(frozen=True, eq=False)
class Answered:
    """One system's decisions in one format of one config and split, in the benchmark's order, beside their beliefs.

    `label` names the system among those of its model and decoding, `title` among all; `rows`, `decisions`, `beliefs`
    and `firsts` (the belief items) are one for each decision. `settings` are the decisions' engine and sampling.
    """

    name: str
    label: str
    title: str
    system: System
    config: str
    split: str
    form: str
    settings: dict[str, str]
    rows: list[Row]
    decisions: list[Said]
    beliefs: list[Said]
    firsts: list[str]
    known: Known

    @property
    def trained(self) -> bool:
        """Whether an adapter answered."""
        return self.system.identity.adapter is not None

    @property
    def decoding(self) -> str:
        """`guided` or `free`."""
        return "guided" if self.system.identity.guided else "free"


def load_answers(outputs: Sequence[Artifact], benchmark: Artifact) -> tuple[list[Answered], list[str]]:
    """Every system's decisions beside its beliefs, by model, base before adapters, config, split and format; and notes.

    Runs of other tasks are passed over. A note says which decisions were left out and why.

    Raises:
        UserError: no run answers this kind of benchmark, a run is not one system's, two runs are the same system's, or
            one answers an item that the benchmark lacks or has in another format.
    """
    loaded: dict[tuple[str, str], Known] = {}

    def known(config: str, split: str) -> Known:
        if (config, split) not in loaded:
            loaded[config, split] = _load_known(benchmark, config, split)
        return loaded[config, split]

    found = [run for artifact in outputs for run in _load_folder(artifact, known)]
    if not found:
        where = ", ".join(str(artifact.path) for artifact in outputs)
        raise UserError(f"{where}: no run of a task with known posteriors, {POSTERIOR_TASKS[0]} for instance")
    notes = [f"{run.name}: a second draw, left out" for run in found if run.name.endswith(RESAMPLE)]
    runs = _by_key([run for run in found if not run.name.endswith(RESAMPLE)])
    answered = list(_pair(runs, notes))
    if not answered:
        raise UserError(f"nothing to score: {'; '.join(notes)}")
    return answered, notes


# --- Reading ---------------------------------------------------------------------------------------------------------


def _load_folder(artifact: Artifact, known: Callable[[str, str], Known]) -> Iterator[Run]:
    """The runs of a folder in Hub layout whose task is one with known posteriors."""
    paths = artifact.path.glob("*/*.parquet")
    for config, split in sorted({(p.parent.name, p.name.split("-")[0]) for p in paths if p.parent.name[0] != "."}):
        where = f"{artifact.path}: run {config}, split {split}"
        columns = read_columns(where, sorted((artifact.path / config).glob(f"{split}-*.parquet")))
        task = one_value(where, "task", columns["task"])
        if task in POSTERIOR_TASKS and "route" not in columns:
            benchmark_config, _, form = task.partition("-")
            yield _load_run(where, config, columns, form, benchmark_config, split, known(benchmark_config, split))


def _load_run(where: str, name: str, columns: Columns, form: str, config: str, split: str, known: Known) -> Run:
    identity = Identity(*(one_value(where, column, columns[column]) for column in Identity._fields))
    system = System(identity, one_value(where, "style", columns["style"]))
    for item_id in columns["item_id"]:
        if item_id not in known.index:
            raise UserError(f"{where}: item {item_id} is not in the benchmark; give the benchmark that was answered")
        if known.rows[known.index[item_id]]["format"] != form:
            raise UserError(f"{where}: says task {config}-{form}, but item {item_id} is not of that format")
    check_answered_once(where, columns["item_id"])
    answers = zip(columns["item_id"], columns["text"], columns["finish_reason"], strict=True)
    by_row = sorted((known.index[item_id], text, reason) for item_id, text, reason in answers)
    said = {index: _said(known.rows[index], text, reason) for index, text, reason in by_row}
    return Run(name, system, config, split, form, {each: listed(columns[each]) for each in SETTINGS}, said, known)


def _said(row: Row, text: str | None, reason: str | None) -> Said:
    fields = elicitation_fields() if row["format"] == "belief" else decision_fields(row["act_word"], row["hold_word"])
    return Said(text or "", parse(text, fields, reason))


def _load_known(benchmark: Artifact, config: str, split: str) -> Known:
    """The rows, checked as the metric checks them."""
    dataset = load_rows(benchmark, config, split)
    if absent := [name for name in POSTERIOR_ROW if name not in dataset.column_names]:
        raise UserError(f"{benchmark.path}: config {config} has no column {absent[0]!r}; are its posteriors known?")
    names = [name for name in POSTERIOR_ROW if name not in ("prompt", "state")]
    columns = [dataset[name][:] for name in names]
    rows = [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]
    try:
        read_references([row for row in rows if row["format"] in DECIDED], "regret")
    except ValueError as error:
        raise UserError(f"{benchmark.path}: config {config}, split {split}: {error}") from error
    return Known(dataset.select_columns(["prompt"]), rows, {row["item_id"]: i for i, row in enumerate(rows)})


# --- Pairing ---------------------------------------------------------------------------------------------------------


def _by_key(runs: Iterable[Run]) -> dict[tuple[System, str, str, str], Run]:
    found: dict[tuple[System, str, str, str], Run] = {}
    for run in runs:
        if (first := found.setdefault(run.key, run)) is not run:
            raise UserError(
                f"{first.name} and {run.name} are both {run.config}-{run.form} of the same system "
                f"({run.system.identity.model}, split {run.split}); give only one"
            )
    return found


def _pair(runs: dict[tuple[System, str, str, str], Run], notes: list[str]) -> Iterator[Answered]:
    """Decisions with their beliefs, in order; what has none is left out and noted."""
    names = system_names({run.system: run.answerer for run in runs.values()})
    models = order_models(run.system.identity.model for run in runs.values())
    used: set[int] = set()
    for run in sorted(runs.values(), key=lambda run: _order(run, models)):
        if run.form == "belief":
            continue
        belief = runs.get((run.system, run.config, run.split, "belief"))
        if belief is None:
            label = names[run.system].title
            notes.append(f"{run.name}: left out, {label} has no run {run.config}-belief, split {run.split}")
            continue
        used.add(id(belief))
        if (answered := _beside(run, belief, names[run.system], notes)) is not None:
            yield answered
    notes += [
        f"{run.name}: left out, no decisions go with its beliefs"
        for run in runs.values()
        if run.form == "belief" and id(run) not in used
    ]


def _order(run: Run, models: Sequence[str]) -> tuple[Any, ...]:
    identity = run.system.identity
    adapter = (identity.adapter is not None, identity.adapter or "", identity.adapter_revision or "")
    place = (CONFIGS.index(run.config), run.split, FORMATS.index(run.form))
    return models.index(identity.model), *adapter, identity.guided, identity.model_revision, run.system.style, *place


def _beside(run: Run, belief: Run, names: Names, notes: list[str]) -> Answered | None:
    """One run's decisions beside the beliefs of another; None when no belief was answered."""
    rows = run.known.rows
    by_place = {(rows[i]["instance_id"], rows[i]["ordering"]): i for i in belief.said}
    firsts = {
        i: run.known.index.get(rows[i]["first_item_id"], -1)
        if run.form == "two_turn"
        else by_place.get((rows[i]["instance_id"], rows[i]["ordering"]), -1)
        for i in run.said
    }
    kept = [i for i in run.said if firsts[i] in belief.said]
    if len(kept) < len(run.said):
        absent = f"{len(run.said) - len(kept):,} of {len(run.said):,} decisions"
        notes.append(f"{run.name}: {absent} left out, {belief.name} lacks their belief")
    if not kept:
        return None
    return Answered(
        name=run.name,
        label=names.label,
        title=names.title,
        system=run.system,
        config=run.config,
        split=run.split,
        form=run.form,
        settings=run.settings,
        rows=[rows[i] for i in kept],
        decisions=[run.said[i] for i in kept],
        beliefs=[belief.said[firsts[i]] for i in kept],
        firsts=[rows[firsts[i]]["item_id"] for i in kept],
        known=run.known,
    )


class Names(NamedTuple):
    """What a system is called among those of its model and decoding, and among all of a report."""

    label: str
    title: str


def system_names(answerers: Mapping[System, str]) -> dict[System, Names]:
    """A system's own name; the style and the revisions only where it takes them to tell two apart.

    The title adds `(guided)`, and the model where there are several.
    """
    ordered = sorted(answerers, key=str)
    labels = dict(answerers)
    for form in ("{0} ({1.style})", "{0} ({1.style}, {2.model_revision}, {2.adapter}@{2.adapter_revision})"):
        often = Counter((each.identity.model, each.identity.guided, labels[each]) for each in ordered)
        for each in ordered:
            if often[each.identity.model, each.identity.guided, labels[each]] > 1:
                labels[each] = form.format(answerers[each], each, each.identity)
    models = {each.identity.model for each in ordered}
    short = {model: model.rpartition("/")[2] for model in models}
    shown = short if len(set(short.values())) == len(models) else {model: model for model in models}
    return {
        each: Names(
            label,
            f"{f'{shown[each.identity.model]}: ' if len(models) > 1 else ''}{label}"
            f"{' (guided)' if each.identity.guided else ''}",
        )
        for each, label in labels.items()
    }
