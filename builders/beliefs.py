"""The base model's own beliefs, read from its elicitation outputs: p_E and the trace nearest it (P1 §3.1, Eq. 2; §3.3).

Parsing is redone from the raw text. One case of a run, five elicitations at 0.3, 0.4, 0.4, 0.5 and "maybe"::

    CaseBelief(case_id="student_dropout-07", belief=Decimal("0.4"), trace="A student with no scholarship ...", stated=1)

A case with fewer than three parseable elicitations, or in the CoT style without a usable trace, has none and is listed.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

from builders.artifacts import Artifact
from builders.calculation import exact, printed_belief
from builders.errors import UserError
from builders.outputs import ENOUGH_BELIEFS, check_answered_once, listed, one_value, read_columns
from builders.traces import UnusableTrace, set_probability, usable_prose
from evaluate_metrics.coherence.parsing import elicitation_fields, parse

NOT_ELICITED = "not elicited"

Row = dict[str, Any]


@dataclass(frozen=True)
class Elicitation:
    """One run of the base model: its config, its identity and sampling, its answers by item id.

    ``digest`` is that of the run's parquet files; ``answers`` are (text, finish reason).
    """

    config: str
    style: str
    settings: dict[str, Any]
    digest: str
    answers: dict[str, tuple[str, str]]


@dataclass(frozen=True)
class CaseBelief:
    """p_E of one case as it is printed and, in the CoT style, the prose nearest it with its probability set.

    ``stated`` is the number of numerals of the prose that were set.
    """

    case_id: str
    belief: Decimal
    trace: str = ""
    stated: int = 0


@dataclass(frozen=True)
class Beliefs:
    """The cases of one split that have a belief, in the benchmark's order, and case id -> why another has none."""

    cases: dict[str, CaseBelief] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)


IDENTITY = ("model", "model_revision", "guided", "style", "task", "adapter")
"""Columns with one value in all rows of a run."""
SETTINGS = ("engine_version", "temperature", "top_p", "max_tokens")
"""How its answers were generated, for the card; splits may differ."""


def find_elicitation(outputs: Artifact, style: str, configs: Sequence[str] = ()) -> Elicitation:
    """The one run of the outputs folder in which the base model states beliefs in a style.

    configs: only these are considered, all when empty.

    Raises:
        UserError: no run qualifies, or more than one does, or a file is no outputs file.
    """
    runs = {path.parent.name for path in outputs.path.glob("*/*.parquet") if path.parent.name[0] != "."}
    if not runs:
        raise UserError(f"{outputs.path}: no runs; an outputs folder holds CONFIG/SPLIT-00000-of-00001.parquet files")
    if unknown := sorted(set(configs) - runs):
        raise UserError(f"{outputs.path}: no config {unknown[0]!r}; there are {', '.join(sorted(runs))}")
    found = [run for run in sorted(set(configs) or runs) if _qualifies(outputs.path / run, style)]
    if not found:
        among = f"none of {', '.join(sorted(set(configs)))}" if configs else f"none of its {len(runs)} runs"
        raise UserError(f"{outputs.path}: {among} is a base model's {style} elicitation; generate it first")
    if len(found) > 1:
        raise UserError(
            f"{outputs.path}: {len(found)} runs are {style} elicitations of a base model ({', '.join(found)}); "
            "choose one with --config"
        )
    return _read_run(outputs.path / found[0], style)


def _qualifies(folder: Path, style: str) -> bool:
    """Whether a run elicits a base model's beliefs in the style, judged by its first row."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = min(folder.glob("*.parquet"))
    wanted = {"task": "elicitation", "style": style, "adapter": None}
    try:
        file = pq.ParquetFile(path)
        if set(wanted) - set(file.schema_arrow.names):
            return False
        first = next(file.iter_batches(1, columns=list(wanted)), None)
    except (pa.ArrowInvalid, OSError) as error:
        raise UserError(f"{path}: cannot be read ({str(error).splitlines()[0]})") from error
    return first is not None and first.num_rows > 0 and first.to_pylist()[0] == wanted


def _read_run(folder: Path, style: str) -> Elicitation:
    paths = sorted(folder.glob("*.parquet"))
    columns = read_columns(str(folder), paths)
    settings = {column: one_value(str(folder), column, columns[column]) for column in IDENTITY}
    settings |= {column: listed(columns[column]) for column in SETTINGS}
    check_answered_once(str(folder), columns["item_id"])
    digest = hashlib.sha256()
    for path in paths:
        digest.update(path.name.encode() + hashlib.sha256(path.read_bytes()).digest())
    texts, reasons = ([value or "" for value in columns[name]] for name in ("text", "finish_reason"))
    answers = dict(zip(columns["item_id"], zip(texts, reasons, strict=True), strict=True))
    return Elicitation(folder.name, style, settings, f"sha256-{digest.hexdigest()[:16]}", answers)


def read_beliefs(run: Elicitation, prompts: Iterable[Mapping[str, Any]]) -> Beliefs:
    """The belief of every case of the prompts (elicitation rows of the run's style), or why it has none."""
    by_case: dict[str, list[Mapping[str, Any]]] = {}
    for prompt in prompts:
        by_case.setdefault(prompt["case_id"], []).append(prompt)
    cases, left_out = {}, {}
    for case_id, rows in by_case.items():
        item_ids = [row["item_id"] for row in sorted(rows, key=lambda row: row["repetition"])]
        result = _case_belief(run, case_id, item_ids)
        if isinstance(result, str):
            left_out[case_id] = result
        else:
            cases[case_id] = result
    return Beliefs(cases, left_out)


def _case_belief(run: Elicitation, case_id: str, item_ids: Sequence[str]) -> CaseBelief | str:
    """The belief of a case from its elicitations in order of repetition; a reason where there is none."""
    answers = [run.answers[item_id] for item_id in item_ids if item_id in run.answers]
    if not answers:
        return NOT_ELICITED
    readings = [
        (text, float(reading.value), reading.span)
        for text, finish_reason in answers
        if (reading := parse(text, elicitation_fields(), finish_reason)["probability"]).value is not None
        and reading.span is not None
    ]
    if len(readings) < ENOUGH_BELIEFS:
        return f"{len(readings)} of {len(answers)} beliefs can be parsed, {ENOUGH_BELIEFS} are needed"
    belief = printed_belief([value for _, value, _ in readings])
    if run.style == "direct":
        return CaseBelief(case_id, belief)
    reasons: list[str] = []
    # The sort is stable, so that of two traces equally near the one of the lower repetition is taken.
    for text, value, span in sorted(readings, key=lambda reading: abs(exact(reading[1]) - belief)):
        try:
            return CaseBelief(case_id, belief, *set_probability(usable_prose(text, span), exact(value), belief))
        except UnusableTrace as reason:
            reasons.append(str(reason))
    counts = ", ".join(f"{reason} ({count})" for reason, count in sorted(Counter(reasons).items()))
    return f"none of {len(readings)} traces is usable: {counts}"
