"""The measures of every run, overall and by slice, as tidy rows (P1 §3.5, Eqs. 3 to 6).

A run is parsed and compared once; a slice is a mask over the same arrays. One score, a row of ``measures.csv``::

    run,model,guided,task,style,slice_kind,slice,measure,value,low,high,n
    base-direct-complete,Qwen/Qwen2.5-Coder-0.5B-Instruct,False,complete,direct,framing,insurance,
        belief_conditional_decision_error,0.41,0.35,0.47,640
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from builders.framings import FRAMINGS
from evaluate_metrics.beliefs import Draw, Elicitations, PairSpread, find_elicitations, pair_spread, read_draws
from evaluate_metrics.coherence.measures import (
    Answers,
    Column,
    count_answers,
    measure_columns,
    read_answers,
    summarise,
)
from evaluate_metrics.coherence.references import CONDITIONS, UNITS, read_references
from evaluate_metrics.coherence.resampling import percentile_interval
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

Spreads = tuple[PairSpread | None, PairSpread | None]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Resampling:
    """The bootstrap behind the intervals: what is drawn (case, domain or item), how often, and the seed."""

    n_resamples: int = 1000
    unit: str = "case"
    seed: int = 124


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

    `answers` are the arrays behind the scores, None for elicitations, which have no decision to score.
    """

    run: Run
    answers: Answers | None
    scores: tuple[Score, ...]
    counts: dict[str, int]
    notes: tuple[str, ...] = ()

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


def score_runs(runs: Sequence[Run], resampling: Resampling) -> list[Scored]:
    """Scores every run; the reference beliefs of one come from the elicitation runs among the others.

    Raises:
        UserError: a run has two reference beliefs (see `find_elicitations`).
    """
    return [
        _score_elicitation(run, resampling)
        if run.task == "elicitation"
        else _score_decisions(run, find_elicitations(run, runs), resampling)
        for run in runs
    ]


def _labels(run: Run) -> tuple[str, str, bool, str, str]:
    return run.name, run.identity.model, run.identity.guided, run.task, run.style


def _score_elicitation(run: Run, resampling: Resampling) -> Scored:
    complete = np.array([parsed.complete for parsed in run.parsed], dtype=bool)
    columns = {"parse_rate": Column(complete.astype(float), np.ones(len(complete), dtype=bool))}
    scores = _slice_scores(run, columns, lambda kind, name: (None, None), resampling)
    return Scored(run, None, tuple(scores), {"cases": len(run.cases), **count_answers(run.parsed)})


def _score_decisions(run: Run, elicitations: Elicitations | None, resampling: Resampling) -> Scored:
    beliefs = {case: elicitations.reference_belief(case) if elicitations else None for case in run.cases}
    rows = [{**row, "reference_belief": beliefs[row["case_id"]]} for row in run.rows]
    answers = read_answers(run.parsed, read_references(rows, run.task))
    decisions = read_draws(run)
    elicited = [draw for draw in elicitations.draws if draw.case_id in beliefs] if elicitations else []
    spreads: dict[str, Spreads] = {
        status: (_spread(decisions, status, resampling.unit), _spread(elicited, status, resampling.unit))
        for status in ("", *DOMAIN_STATUSES)
    }
    scores = _slice_scores(
        run,
        measure_columns(answers, run.task),
        # A framing or a condition meets the floor of the whole run, a domain status its own (P1 Appendix A).
        lambda kind, name: spreads[name if kind == "domain_status" else ""],
        resampling,
    )
    unreferenced = {
        "cases_without_reference": sum(belief is None for belief in beliefs.values()),
        "answers_without_reference": int(np.isnan(answers.reference).sum()),
    }
    counts = {"cases": len(beliefs), **unreferenced, **count_answers(run.parsed)}
    notes = _notes(run, elicitations, spreads[""], counts)
    return Scored(run, answers, tuple(scores), counts, tuple(notes))


def _spread(draws: Sequence[Draw], status: str, unit: str) -> PairSpread | None:
    return pair_spread([draw for draw in draws if status in ("", draw.domain_status)], unit)


def _slice_scores(run: Run, columns: dict[str, Column], spreads: Any, resampling: Resampling) -> Iterator[Score]:
    """The scores of every slice, the whole run first; spreads: (slice_kind, slice) -> the floor's spreads there."""
    column = UNITS[resampling.unit]
    units = np.array([index if column is None else row[column] for index, row in enumerate(run.rows)])
    for kind, name, mask in _masks(run):
        kept = {
            measure: Column(each.values[mask], each.valid[mask], each.proportion)
            for measure, each in columns.items()
            if kind != "condition" or not measure.startswith("recall_")
        }
        for measure, value, interval, n in _measures(kept, units[mask], spreads(kind, name), resampling):
            low, high = interval or (None, None)
            yield Score(*_labels(run), kind, name, measure, value, low, high, n)


def _masks(run: Run) -> Iterator[tuple[str, str, Mask]]:
    yield "overall", "all", np.ones(len(run.rows), dtype=bool)
    for kind in SLICE_KINDS[run.task]:
        values = np.array([row[kind] for row in run.rows])
        for name in SLICES[kind]:
            yield kind, name, values == name


Estimate = tuple[str, float | None, list[float] | None, int]


def _measures(
    columns: dict[str, Column], units: NDArray[Any], spreads: Spreads, resampling: Resampling
) -> Iterator[Estimate]:
    """(measure, value, interval, n) of one slice, the two spreads behind the floor last."""
    codes = np.unique(units, return_inverse=True)[1].astype(np.intp)
    result = summarise(columns, codes, spreads, resampling.n_resamples, resampling.seed)
    for measure in [key for key in result if not key.endswith(("_ci", "_n"))]:
        interval = result[f"{measure}_ci"]
        if measure == "noise_floor" and not all(spread and spread.units.any() for spread in spreads):
            interval = None  # from a single unit there is no interval
        yield measure, result[measure], interval, result[f"{measure}_n"] or 0
    if "belief_distortion_error" in result:
        yield _spread_estimate("decision_spread", spreads[0], resampling, 2)
        yield _spread_estimate("elicitation_spread", spreads[1], resampling, 3)


def _spread_estimate(name: str, spread: PairSpread | None, resampling: Resampling, stream: int) -> Estimate:
    """m_C or m_A: the mean absolute difference over pairs."""
    if spread is None or spread.differences is None:
        return name, None, None, 0
    draws = spread.resample(resampling.n_resamples, np.random.default_rng([resampling.seed, stream]))
    interval = percentile_interval(draws) if spread.units.any() else None
    return name, spread.mean, interval, len(spread.differences)


def _notes(run: Run, elicitations: Elicitations | None, spreads: Spreads, counts: dict[str, int]) -> Iterator[str]:
    """What a reader must know before reading the distortion measures of a run, one line each."""
    if elicitations is None:
        yield (
            f"{run.name}: no {run.decoding} elicitation run of the same model for {run.style} decisions among the "
            "outputs, so belief distortion is not measured"
        )
    elif missing := counts["cases_without_reference"]:
        yield (
            f"{run.name}: {missing} of {counts['cases']} cases ({counts['answers_without_reference']:,} of "
            f"{counts['answers']:,} answers) have no reference belief, fewer than three of their elicitations being "
            "readable; they count in every other measure"
        )
    if spreads[0] is None:
        yield f"{run.name}: no prompt has two readable answers, so there is no noise floor and no excess distortion"
    elif elicitations is not None and spreads[1] is None:
        yield f"{run.name}: no case has two readable elicitations, so there is no noise floor and no excess distortion"
