"""Regret and its parts for every system, config and format, by slice; how far an adapter is from its base model (P2).

The slices are all answers, each number of features of `synthetic`, and, where it is said which thresholds were trained
on, these and the held-out ones. One score, a row of ``regret.csv``, and one difference, a row of ``differences.csv``::

    model,system,guided,config,split,format,slice,measure,value,low,high,n
    Qwen/Qwen3-8B,base,False,weather,test,independent,all,total_regret,0.112,0.097,0.128,1800

    model,system,guided,config,split,format,slice,measure,value,low,high,n,n_base,n_system
    Qwen/Qwen3-8B,belief-only,False,weather,test,independent,held_out_thresholds,belief_loss,-0.05,-0.07,-0.03,987,998,989

A difference is the adapter's value minus the base's on the items that both answered: below 0, training lowered it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from builders.errors import UserError
from builders.posterior.losses import read_thresholds
from evaluate_metrics.coherence.decisions import (
    Decisions,
    count_decisions,
    paired_differences,
    read_decisions,
    summarise_decisions,
)
from evaluate_metrics.coherence.measures import Result
from evaluate_metrics.coherence.revealed import LOSSES
from evaluate_metrics.regret_runs import Answered, System

PARTS = ("total_regret", "belief_loss", "optimisation_residual")
POOLED = (*PARTS, "belief_error", "belief_score", "decision_accuracy", "parse_rate")
"""The measures over answers: those that a choice of thresholds restricts."""

TRAINED, HELD_OUT = "trained_thresholds", "held_out_thresholds"


@dataclass(frozen=True)
class Settings:
    """The bootstrap over instances, and the losses (by cost_fp) that adapters were trained on, None when all were."""

    n_resamples: int = 1000
    seed: int = 124
    trained: tuple[int, ...] | None = None

    @property
    def held_out(self) -> tuple[int, ...]:
        """The losses that no adapter was trained on."""
        return () if self.trained is None else tuple(loss for loss in LOSSES if loss not in self.trained)


@dataclass(frozen=True)
class Score:
    """One measure of one slice: its value, 95% interval and n (answers, or profiles of nine); None without one."""

    model: str
    system: str
    guided: bool
    config: str
    split: str
    format: str
    slice: str
    measure: str
    value: float | None
    low: float | None
    high: float | None
    n: int


@dataclass(frozen=True)
class Difference:
    """An adapter's measure minus its base model's, over the n items that both read; n_base, n_system: that each did."""

    model: str
    system: str
    guided: bool
    config: str
    split: str
    format: str
    slice: str
    measure: str
    value: float | None
    low: float | None
    high: float | None
    n: int
    n_base: int
    n_system: int


@dataclass(frozen=True)
class Count:
    """How many answers there were, or could not be read in one way."""

    model: str
    system: str
    guided: bool
    config: str
    split: str
    format: str
    count: str
    value: int


@dataclass(frozen=True, eq=False)
class Scored:
    """A system's decisions in one format with their scores, differences to the base model (a base has none), counts."""

    answered: Answered
    decisions: Decisions
    scores: tuple[Score, ...]
    differences: tuple[Difference, ...]
    counts: dict[str, int]

    @cached_property
    def _scores(self) -> dict[tuple[str, str], Score]:
        return {(score.measure, score.slice): score for score in self.scores}

    @cached_property
    def _differences(self) -> dict[tuple[str, str], Difference]:
        return {(each.measure, each.slice): each for each in self.differences}

    def get(self, measure: str, slice_name: str = "all") -> Score | None:
        """The score of a measure on a slice; None where there is none."""
        return self._scores.get((measure, slice_name))

    def value(self, measure: str, slice_name: str = "all") -> float | None:
        """The value of a measure on a slice; None where it has none."""
        score = self.get(measure, slice_name)
        return score.value if score else None

    def difference(self, measure: str, slice_name: str = "all") -> Difference | None:
        """The difference of a measure to the base model; None where there is none."""
        return self._differences.get((measure, slice_name))

    @property
    def features(self) -> tuple[str, ...]:
        """The slices by number of features, in order; none outside `synthetic`."""
        return tuple(each for each in dict.fromkeys(score.slice for score in self.scores) if each.startswith("k="))

    def count_rows(self) -> list[Count]:
        """The counts as tidy rows."""
        return [Count(*_labels(self.answered), name, value) for name, value in self.counts.items()]


def trained_losses(text: str) -> tuple[int, ...]:
    """The losses, by cost_fp, that adapters were trained on, from their thresholds in words.

    Raises:
        UserError: one is not 0.1, 0.2, ... 0.9, or none is left to be held out.
    """
    losses = read_thresholds(text)
    if len(losses) == len(LOSSES):
        raise UserError(f"trained thresholds {text!r:.80} leave none to be held out; leave the option out")
    return losses


def score_answers(answered: Sequence[Answered], settings: Settings) -> tuple[list[Scored], list[str]]:
    """Scores every system's decisions, and an adapter's against its base model's; and what cannot be compared.

    Raises:
        UserError: the benchmark gives an instance two posteriors or a decision twice.
    """
    places = {_place(each, each.system): each for each in answered}
    scored, notes = [], []
    for each in answered:
        base = places.get(_place(each, each.system.base)) if each.trained else None
        if each.trained and (base is None or not _common(base, each)):
            notes.append(f"{each.name}: no differences, its base model did not answer these items in the same way")
        try:
            scored.append(_score(each, base, settings))
        except ValueError as error:
            raise UserError(f"{each.name}: the benchmark's rows cannot be scored ({error})") from error
    return scored, notes


def _place(answered: Answered, system: System) -> tuple[System, str, str, str]:
    return system, answered.config, answered.split, answered.form


def _common(base: Answered, other: Answered) -> list[tuple[int, int]]:
    """The positions, in both, of every item that both answered."""
    places = {row["item_id"]: i for i, row in enumerate(base.rows)}
    return [(places[row["item_id"]], i) for i, row in enumerate(other.rows) if row["item_id"] in places]


def _labels(answered: Answered) -> tuple[str, str, bool, str, str, str]:
    identity = answered.system.identity
    return identity.model, answered.label, identity.guided, answered.config, answered.split, answered.form


def _score(answered: Answered, base: Answered | None, settings: Settings) -> Scored:
    rows = range(len(answered.rows))
    decisions = as_decisions(answered, rows)
    decided, believed = ([said.parsed for said in each] for each in (answered.decisions, answered.beliefs))
    return Scored(
        answered,
        decisions,
        tuple(_slice_scores(answered, settings)),
        tuple(_slice_differences(base, answered, settings)) if base is not None else (),
        count_decisions(decided, believed, decisions),
    )


def as_decisions(answered: Answered, kept: Sequence[int]) -> Decisions:
    """Some of the decisions as the arrays that measures are computed from."""
    decisions, beliefs = ([said[i].parsed for i in kept] for said in (answered.decisions, answered.beliefs))
    return read_decisions(decisions, beliefs, [answered.rows[i] for i in kept])


def _slices(answered: Answered, settings: Settings) -> Iterator[tuple[str, list[int], tuple[int, ...] | None]]:
    """The name of each slice, the decisions in it, and the losses that its measures are restricted to."""
    rows = answered.rows
    everything = list(range(len(rows)))
    yield "all", everything, None
    for k in sorted({row["n_features"] for row in rows if row["n_features"] is not None}):
        yield f"k={k}", [i for i in everything if rows[i]["n_features"] == k], None
    if settings.trained is not None:
        yield TRAINED, everything, settings.trained
        yield HELD_OUT, everything, settings.held_out


def _slice_scores(answered: Answered, settings: Settings) -> Iterator[Score]:
    for name, kept, losses in _slices(answered, settings):
        result = summarise_decisions(as_decisions(answered, kept), losses, settings.n_resamples, settings.seed)
        for measure in _measures(result, losses):
            yield Score(*_labels(answered), name, measure, *_estimate(result, measure))


def _slice_differences(base: Answered, other: Answered, settings: Settings) -> Iterator[Difference]:
    """The differences on the items that both answered, slice by slice."""
    common = _common(base, other)
    for name, kept, losses in _slices(other, settings):
        inside = set(kept)
        pairs = [(at, i) for at, i in common if i in inside]
        theirs, ours = as_decisions(base, [i for i, _ in pairs]), as_decisions(other, [i for _, i in pairs])
        result = paired_differences(theirs, ours, losses, settings.n_resamples, settings.seed)
        for key in _measures(result, losses):
            sizes = result[f"{key}_n_base"], result[f"{key}_n_other"]
            yield Difference(*_labels(other), name, key.removesuffix("_difference"), *_estimate(result, key), *sizes)


def _measures(result: Mapping[str, Any], losses: tuple[int, ...] | None) -> list[str]:
    """The measures of a flat result; with a choice of losses those that it restricts."""
    names = [key.removesuffix("_ci") for key in result if key.endswith("_ci")]
    return [name for name in names if losses is None or name.removesuffix("_difference") in POOLED]


def _estimate(result: Result, measure: str) -> tuple[float | None, float | None, float | None, int]:
    low, high = result[f"{measure}_ci"] or (None, None)
    return result[measure], low, high, result[f"{measure}_n"]
