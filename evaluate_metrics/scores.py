"""The measures of every run, overall and by slice, as tidy rows (P1 §3.5, Eqs. 3 to 6).

A run is parsed and compared once; a slice is a mask over the same arrays. One score, a row of ``measures.csv``::

    run,model,guided,task,style,slice_kind,slice,measure,value,low,high,n
    base-direct-complete,Qwen/Qwen2.5-Coder-0.5B-Instruct,False,complete,direct,framing,insurance,
        belief_conditional_decision_error,0.41,0.35,0.47,640
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from builders.framings import FRAMINGS
from evaluate_metrics.beliefs import Library, References, Whose, read_draws
from evaluate_metrics.coherence.measures import Answers, Column, count_answers, measure_columns, read_answers
from evaluate_metrics.coherence.references import CONDITIONS, UNITS, read_references
from evaluate_metrics.estimates import QUIET, Noise, Resampling, estimate_measures
from evaluate_metrics.floors import Repeats, draw_pairs, measure_noise, mix_noise
from evaluate_metrics.runs import Run

DOMAIN_STATUSES = ("seen", "held_out")
SLICES: dict[str, tuple[str, ...]] = {
    "framing": tuple(framing.name for framing in FRAMINGS),
    "domain_status": DOMAIN_STATUSES,
    "condition": CONDITIONS,
}
"""slice_kind (a column of the benchmark) -> its slices, in order."""

SLICE_KINDS = {
    "elicitation": ("domain_status",),
    "complete": ("framing", "domain_status"),
    "decidability": ("framing", "domain_status", "condition"),
}
"""task -> how its runs are sliced."""

Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Score:
    """One measure of one slice of one run: its value, 95% interval and n; None where it cannot be computed."""

    run: str
    model: str
    guided: bool
    task: str
    style: str
    slice_kind: str
    slice: str
    measure: str
    value: float | None
    low: float | None
    high: float | None
    n: int


@dataclass(frozen=True)
class Count:
    """How many answers of one run were, or could not be read, in one way."""

    run: str
    model: str
    guided: bool
    task: str
    style: str
    count: str
    value: int


@dataclass(frozen=True, eq=False)
class Scored:
    """A run with its scores, its counts, and in `notes` what could not be measured and why.

    `answers` and `columns` are the arrays behind the scores, None and empty for elicitations, which have no decision to
    score; `repeats` is what the floor comes from, None for them and for the routed system, whose `parts` have it.
    """

    run: Run
    answers: Answers | None
    columns: dict[str, Column]
    scores: tuple[Score, ...]
    counts: dict[str, int]
    notes: tuple[str, ...] = ()
    repeats: Repeats | None = None
    parts: Parts | None = None

    @cached_property
    def _by_key(self) -> dict[tuple[str, str, str], Score]:
        return {(score.measure, score.slice_kind, score.slice): score for score in self.scores}

    def get(self, measure: str, slice_kind: str = "overall", slice_name: str = "all") -> Score | None:
        """The score of a measure on a slice; None where the task does not have it."""
        return self._by_key.get((measure, slice_kind, slice_name))

    def value(self, measure: str) -> float | None:
        """The overall value of a measure, None where it has none."""
        score = self.get(measure)
        return score.value if score else None

    def count_rows(self) -> list[Count]:
        """The counts as tidy rows."""
        return [Count(*_labels(self.run), name, value) for name, value in self.counts.items()]


@dataclass(frozen=True, eq=False)
class Parts:
    """The scored runs of a routed run's components; None where the outputs lack one."""

    gate: Scored | None
    specialist: Scored | None


def score_runs(runs: Sequence[Run], resampling: Resampling, whose: Whose = "base") -> list[Scored]:
    """Scores every run; its reference beliefs come from the elicitation runs among them.

    whose: the beliefs that an adapter is compared with, its base model's or its own.

    Raises:
        UserError: a run has two reference beliefs (see `find_elicitations`).
    """
    library = Library(runs, whose)
    scored = {
        id(run): _score_elicitation(run, resampling)
        if run.task == "elicitation"
        else _score_decisions(run, library.references(run), resampling)
        for run in runs
        if run.route is None
    }
    components = list(scored.values())
    for run in runs:
        if run.route is not None:
            parts = Parts(
                _component(run, run.route.gate, ("decidability", "direct"), components),
                _component(run, run.route.specialist, ("complete", "cot"), components),
            )
            scored[id(run)] = _score_routed(run, library.references(run), parts, resampling)
    return [scored[id(run)] for run in runs]


def _component(run: Run, adapter: tuple[str, str], role: tuple[str, str], scored: Sequence[Scored]) -> Scored | None:
    """The first run of an adapter in its role on the split of a routed run, a free one before a guided one."""
    found = [
        each
        for each in scored
        if (each.run.task, each.run.style) == role
        and each.run.split == run.split
        and each.run.identity[:4] == (*run.identity[:2], *adapter)
    ]
    return min(found, key=lambda each: each.run.identity.guided, default=None)


def _labels(run: Run) -> tuple[str, str, bool, str, str]:
    return run.name, run.identity.model, run.identity.guided, run.task, run.style


def _score_elicitation(run: Run, resampling: Resampling) -> Scored:
    complete = np.array([parsed.complete for parsed in run.parsed], dtype=bool)
    columns = {"parse_rate": Column(complete.astype(float), np.ones(len(complete), dtype=bool))}
    scores = _slice_scores(run, columns, {}, resampling)
    return Scored(run, None, {}, tuple(scores), {"cases": len(run.cases), **count_answers(run.parsed)})


def _score_decisions(run: Run, references: References, resampling: Resampling) -> Scored:
    repeats = Repeats(
        draw_pairs(read_draws(run)), draw_pairs(references.elicited), adapter=run.identity.adapter is not None
    )
    noise = {status: measure_noise([repeats], status, resampling) for status in ("", *DOMAIN_STATUSES)}
    scored = _score(run, references, noise, resampling)
    return replace(scored, notes=(*scored.notes, *_floor_notes(run, references, repeats)), repeats=repeats)


def _score_routed(run: Run, references: References, parts: Parts, resampling: Resampling) -> Scored:
    noise = {status: routed_noise([(run, parts)], status, resampling) for status in ("", *DOMAIN_STATUSES)}
    scored = _score(run, references, noise, resampling)
    missing = () if noise[""].floor.value is not None else (f"{run.name}: {NO_MIXTURE}",)
    return replace(scored, notes=(*scored.notes, *missing), parts=parts)


NO_MIXTURE = (
    "the run of its gate or of its specialist is not among the outputs or has no noise floor, so the routed system has "
    "neither a floor nor an excess"
)


def routed_noise(routed: Sequence[tuple[Run, Parts]], status: str, resampling: Resampling) -> Noise:
    """The floor of one routed run, or of several pooled: their components' in the shares of beliefs (P1 Figure 4).

    The gate's floor is that of its decidability run, the specialist's that of its complete run; a share is that of the
    beliefs reported by a component among all that were read.
    """
    forwarded = [
        route
        for run, _ in routed
        if run.route is not None
        for row, parsed, route in zip(run.rows, run.parsed, run.route.forwarded, strict=True)
        if status in ("", row["domain_status"]) and parsed["probability"].value is not None
    ]
    if not forwarded:
        return QUIET
    share = sum(forwarded) / len(forwarded)
    gates = [parts.gate for _, parts in routed]
    specialists = [parts.specialist for _, parts in routed]
    return mix_noise(
        [
            (1 - share, _pooled_noise(gates, status, resampling, stream=11)),
            (share, _pooled_noise(specialists, status, resampling, stream=21)),
        ]
    )


def _pooled_noise(parts: Sequence[Scored | None], status: str, resampling: Resampling, stream: int) -> Noise:
    repeats = [part.repeats for part in parts if part is not None and part.repeats is not None]
    complete = len(repeats) == len(parts) and all(each.decision for each in repeats)
    return measure_noise(repeats, status, resampling, stream=stream) if complete else QUIET


def _score(run: Run, references: References, noise: dict[str, Noise], resampling: Resampling) -> Scored:
    rows = [{**row, "reference_belief": p} for row, p in zip(run.rows, references.beliefs, strict=True)]
    answers = read_answers(run.parsed, read_references(rows, run.task))
    columns = measure_columns(answers, run.task)
    scores = _slice_scores(run, columns, noise, resampling)
    counts = {
        "cases": len(run.cases),
        "cases_without_reference": len({row["case_id"] for row in rows if row["reference_belief"] is None}),
        "answers_without_reference": int(np.isnan(answers.reference).sum()),
        **count_answers(run.parsed),
    }
    return Scored(run, answers, columns, tuple(scores), counts, tuple(_reference_notes(run, references, counts)))


def unit_names(run: Run, unit: str) -> NDArray[Any]:
    """(answers,) the name of each answer's bootstrap unit."""
    column = UNITS[unit]
    return np.array([index if column is None else row[column] for index, row in enumerate(run.rows)])


def _slice_scores(
    run: Run, columns: dict[str, Column], noise: dict[str, Noise], resampling: Resampling
) -> Iterator[Score]:
    """The scores of every slice, the whole run first; noise: domain status, "" for all -> the floor there."""
    units = unit_names(run, resampling.unit)
    for kind, name, mask in _masks(run):
        # A framing or a condition meets the floor of the whole run, a domain status its own (P1 Appendix A).
        floor = noise.get(name if kind == "domain_status" else "", QUIET)
        kept = {
            measure: Column(each.values[mask], each.valid[mask], each.proportion)
            for measure, each in columns.items()
            if kind != "condition" or not measure.startswith("recall_")
        }
        for measure, estimate in estimate_measures(kept, units[mask], floor, resampling):
            yield Score(*_labels(run), kind, name, measure, *estimate)


def _masks(run: Run) -> Iterator[tuple[str, str, Mask]]:
    yield "overall", "all", np.ones(len(run.rows), dtype=bool)
    for kind in SLICE_KINDS[run.task]:
        values = np.array([row[kind] for row in run.rows])
        for name in SLICES[kind]:
            yield kind, name, values == name


def _reference_notes(run: Run, references: References, counts: dict[str, int]) -> Iterator[str]:
    """What a reader must know of the reference beliefs before reading the distortion of a run, one line each."""
    yield from (f"{run.name}: {note}" for note in references.notes)
    missing = counts["cases_without_reference"]
    if missing and references.found:
        yield (
            f"{run.name}: {missing} of {counts['cases']} cases ({counts['answers_without_reference']:,} of "
            f"{counts['answers']:,} answers) have no reference belief, fewer than three of their elicitations being "
            "readable; they count in every other measure"
        )


def _floor_notes(run: Run, references: References, repeats: Repeats) -> Iterator[str]:
    if not repeats.decision:
        yield f"{run.name}: no prompt has two readable answers, so there is no noise floor and no excess distortion"
    elif references.found and not repeats.elicitation:
        yield f"{run.name}: no case has two readable elicitations, so there is no noise floor and no excess distortion"
