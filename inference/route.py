"""The routed system (P1 §3.4): a Direct decidability gate, and the CoT complete-information specialist behind it.

The gate's *predicted* choice decides. A, B and C end with the gate's belief; D sends the same item in its
complete-information form to the specialist of the same framing holdout, which does not see the gate's answer. What the
published parser reads no choice from is an error of the system, neither forwarded nor dropped. One row of the config
``routed-full-hedge`` (``builders.schema.ROUTED``)::

    {"item_id": "wildfire-03.betting.fp10-fn1.decidability.direct.r1", "route": "forwarded",
     "gate_text": "<final>\\nProbability: 0.4\\nChoice: D\\n...", "specialist_text": "The case shows ...",
     "specialist_item_id": "wildfire-03.betting.fp10-fn1.complete.cot.r1", ...}
"""

from __future__ import annotations

import dataclasses
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from builders.artifacts import Artifact, load_rows, resolve
from builders.errors import UserError
from builders.folders import write_parquet
from builders.packaged import PACKAGED, PREFIX
from builders.schema import ROUTED
from evaluate_metrics.coherence.parsing import decidability_fields, parse
from inference.adapters import RUN, Adapter, is_adapter, read_adapter
from inference.answers import Answers, read_answers, split_reference
from inference.card import check_out, write_outputs_card
from inference.generate import Row, Run, answered, check_run
from inference.requests import Engine, Sampling

Route = Literal["terminated", "forwarded", "unreadable"]
ROUTES: tuple[Route, ...] = ("terminated", "forwarded", "unreadable")

GATE_SUFFIX = re.compile(r"\.decidability\.direct\.(r\d+)$", re.ASCII)


@dataclass(frozen=True)
class Step:
    """What becomes of one answer of the gate; ``prompt`` is the specialist's prompt row if it is forwarded."""

    item_id: str
    route: Route
    prompt: Row | None = None


@dataclass(frozen=True)
class Specialist:
    """The second half of the system: its id and revision, and its output rows by item id."""

    id: str
    revision: str
    rows: Mapping[str, Row]


def predicted_route(text: str | None, finish_reason: str | None, act_word: str, hold_word: str) -> Route:
    """Where an answer of the gate leads, by the choice that the published parser reads from it."""
    choice = parse(text, decidability_fields(act_word, hold_word), finish_reason)["choice"].value
    if choice is None:
        return "unreadable"
    return "forwarded" if choice == "D" else "terminated"


def plan(gate: Answers, benchmark: Artifact, split: str) -> list[Step]:
    """The route of every answer of the gate, in the gate's order; prints how many take which.

    Raises:
        UserError: the benchmark lacks an item that the gate answered, or its complete-information form.
    """
    words = ["item_id", "act_word", "hold_word"]
    asked = {row["item_id"]: row for row in load_rows(benchmark, "decidability", split).select_columns(words)}
    complete = {row["item_id"]: row for row in load_rows(benchmark, "complete", split) if row["style"] == "cot"}
    steps = []
    for item_id, answer in gate.rows.items():
        specialist_item_id = GATE_SUFFIX.sub(r".complete.cot.\1", item_id)
        if item_id not in asked or specialist_item_id not in complete:
            raise UserError(
                f"{gate.where}: {item_id} is no Direct decidability item with a complete-information form in "
                f"{benchmark.path}; give the benchmark that was answered"
            )
        row = asked[item_id]
        route = predicted_route(answer["text"], answer["finish_reason"], row["act_word"], row["hold_word"])
        steps.append(Step(item_id, route, complete[specialist_item_id] if route == "forwarded" else None))
    counts = Counter(step.route for step in steps)
    listed = ", ".join(f"{counts[route]:,} {route}" for route in ROUTES)
    print(f"routed-{gate.holdout}: {len(steps):,} answers of the gate: {listed}", file=sys.stderr)
    return steps


def from_outputs(reference: str, gate: Answers, steps: Sequence[Step], split: str) -> Specialist:
    """The specialist whose answers are there already.

    Raises:
        UserError: it is not the specialist of this gate, or forwarded items have no answer.
    """
    answers = read_answers(reference, "cot", "complete", split, gate.holdout)
    _check_base(answers.where, (answers.model, answers.model_revision), gate)
    needed = [step.prompt["item_id"] for step in steps if step.prompt]
    if missing := [item_id for item_id in needed if item_id not in answers.rows]:
        raise UserError(
            f"{answers.where}: {len(missing):,} of the {len(needed):,} forwarded items have no answer "
            f"(first: {missing[0]}); generate the rest, or give the adapter as --specialist"
        )
    return Specialist(answers.adapter, answers.adapter_revision, answers.rows)


def from_adapter(
    reference: str,
    gate: Answers,
    steps: Sequence[Step],
    model: Artifact,
    run: Run,
    load: Callable[[Artifact, Adapter], Engine],
    out: Path,
) -> Specialist:
    """The specialist as an adapter: answers the forwarded items, and no others.

    The answers go through the journal of the adapter's own run in ``out``, ``sft-cot-complete-<holdout>``: what either
    command has answered there is not answered again by the other, and an interruption loses nothing. No config is
    written for them; their texts stand in the routed rows.

    Raises:
        UserError: it is not the specialist of this gate, or cannot be run.
    """
    _check_base(str(model.path), (model.id, model.revision), gate)
    adapter = read_adapter(resolve(reference, "model"), model)
    if (adapter.style, adapter.task, adapter.holdout) != (run.style, run.task, gate.holdout):
        found = adapter.training or f"has no {RUN}"
        raise UserError(f"{adapter.path}: {found}; the gate needs the cot complete adapter of {gate.holdout}")
    rows = [step.prompt for step in steps if step.prompt]
    run = dataclasses.replace(run, adapter=adapter)
    if not rows:
        return Specialist(adapter.id, adapter.revision, {})
    with answered(run, rows, model, load(model, adapter), out) as outputs:
        return Specialist(adapter.id, adapter.revision, {row["item_id"]: row for row in outputs})


def _check_base(where: str, base: tuple[str, str], gate: Answers) -> None:
    if base != (gate.model, gate.model_revision):
        raise UserError(
            f"{where}: of the model {base[0]} ({base[1]}), but the gate is of {gate.model} ({gate.model_revision}); "
            "gate and specialist need the same base"
        )


def base_reference(gate: Answers) -> str:
    """The reference that leads to the gate's base model.

    Raises:
        UserError: it was a local folder, of which the outputs know the name alone.
    """
    packaged = {f"{name}/{model.file}": f"{PREFIX}{name}" for name, model in PACKAGED.items()}
    if gate.model in packaged:
        return packaged[gate.model]
    if gate.model.count("/") != 1:
        raise UserError(f"{gate.where}: its model is the folder {gate.model!r}; give it as --model")
    return f"{gate.model}@{gate.model_revision}"


def routed_row(step: Step, gate: Answers, specialist: Specialist) -> dict[str, Any]:
    """The output row of one step; its token counts and engine are those of all that answered."""
    first = gate.rows[step.item_id]
    second = specialist.rows[step.prompt["item_id"]] if step.prompt else None
    each = [first, *([second] if second else [])]
    answer = {
        f"{who}_{name}": row[name] if row else None
        for who, row in (("gate", first), ("specialist", second))
        for name in ("text", "finish_reason")
    }
    return {
        "item_id": step.item_id,
        "model": gate.model,
        "model_revision": gate.model_revision,
        "holdout": gate.holdout,
        "route": step.route,
        "gate": gate.adapter,
        "gate_revision": gate.adapter_revision,
        "specialist": specialist.id,
        "specialist_revision": specialist.revision,
        "specialist_item_id": second["item_id"] if second else None,
        **answer,
        **{name: "; ".join(dict.fromkeys(row[name] for row in each)) for name in ("engine", "engine_version")},
        "task": "decidability",
        **{name: _total(row[name] for row in each) for name in ("prompt_tokens", "completion_tokens")},
    }


def _total(counts: Iterable[int | None]) -> int | None:
    """The sum, unknown where one is: an endpoint may not tell."""
    known = list(counts)
    return None if None in known else sum(filter(None, known))


@dataclass(frozen=True)
class System:
    """What is composed: references to the gate's run and the specialist, and how missing answers are generated."""

    gate: str
    specialist: str
    split: str = "test"
    holdout: str | None = None
    model: str | None = None
    sampling: Sampling = dataclasses.field(default_factory=Sampling)


def route(system: System, benchmark: Artifact, load: Callable[[Artifact, Adapter], Engine], out: Path) -> Path:
    """Composes the system and writes its config ``routed-<holdout>`` into ``out``; returns the parquet file.

    Args:
        system: the two halves. A local folder with an adapter's files, or an ``org/name``, is an adapter as specialist;
            any other folder, or ``ID:CONFIG``, is outputs.
        benchmark: what the gate answered.
        load: an engine with a model and an adapter; called only if something must be generated.
        out: the outputs folder.

    Raises:
        UserError: gate, specialist and benchmark do not belong together, or ``out`` holds something else.
    """
    run = Run("complete", "cot", system.split, sampling=system.sampling)
    check_run(run)
    check_out(out)
    gate = read_answers(system.gate, "direct", "decidability", system.split, system.holdout)
    steps = plan(gate, benchmark, system.split)
    if _is_outputs(system.specialist):
        specialist = from_outputs(system.specialist, gate, steps, system.split)
    else:
        model = resolve(system.model if system.model is not None else base_reference(gate), "model")
        specialist = from_adapter(system.specialist, gate, steps, model, run, load, out)
    rows = [routed_row(step, gate, specialist) for step in steps]
    written = write_parquet(out, f"routed-{gate.holdout}", system.split, rows, ROUTED)
    write_outputs_card(out)
    return out / written.path


def _is_outputs(reference: str) -> bool:
    folder = Path(reference).expanduser()
    return not is_adapter(folder) if folder.is_dir() else split_reference(reference)[1] is not None
