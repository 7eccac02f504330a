"""Means with their intervals, the noise floor beside the distortion (P1 §3.5, Eqs. 3 to 6), of runs and of systems.

One pass over arrays: a measure is a mean over the items where it is defined, its interval comes from resampling whole
units, and all measures of a slice share the resamples. Items may have weights, as the base models' do (P1 §4.1).

>>> columns = {"parse_rate": Column(np.array([1.0, 0.0, 1.0, 1.0]), np.ones(4, dtype=bool))}
>>> cases, few = np.array(["a", "a", "b", "b"]), Resampling(n_resamples=100)
>>> for _, estimate in estimate_measures(columns, cases, QUIET, few, weights=np.array([1.0, 1.0, 3.0, 3.0])):
...     print(estimate)
Estimate(value=0.875, low=0.5, high=1.0, n=4)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from evaluate_metrics.coherence.floor import excess
from evaluate_metrics.coherence.measures import NO_WIDTH, Column
from evaluate_metrics.coherence.resampling import bootstrap_means, percentile_interval, unit_sums, wilson_interval

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Resampling:
    """The bootstrap behind the intervals: what is drawn (case, domain or item), how often, and the seed."""

    n_resamples: int = 1000
    unit: str = "case"
    seed: int = 124


class Estimate(NamedTuple):
    """A value with its 95% interval and the n that it is over; None where it cannot be computed."""

    value: float | None
    low: float | None
    high: float | None
    n: int


NOTHING = Estimate(None, None, None, 0)


@dataclass(frozen=True, eq=False)
class Noise:
    """A noise floor: its estimate, those of m_C and m_A behind it, and its draws, None without a floor.

    `draws` has one floor for each resample of the measures; `replicates` are all that the interval was taken from.
    """

    floor: Estimate = NOTHING
    decision: Estimate = NOTHING
    elicitation: Estimate = NOTHING
    draws: Floats | None = None
    replicates: Floats | None = None


QUIET = Noise()
"""Where nothing was drawn twice: no floor."""


def interval(draws: Floats, several: bool) -> tuple[float | None, float | None]:
    """The central 95% of the draws; nothing from a single unit, which says nothing about how units differ."""
    bounds = percentile_interval(draws) if several else None
    return (bounds[0], bounds[1]) if bounds else (None, None)


def estimate_measures(
    columns: Mapping[str, Column],
    units: NDArray[Any],
    noise: Noise,
    resampling: Resampling,
    weights: Floats | None = None,
) -> Iterator[tuple[str, Estimate]]:
    """Every measure of one slice: the columns in their order, floor and excess after the distortion, the spreads last.

    units: (items,), the name of each item's bootstrap unit; weights: (items,), None for equal ones.
    """
    codes = np.unique(units, return_inverse=True)[1].astype(np.intp)
    values = np.stack([column.values for column in columns.values()], axis=1)
    valid = np.stack([column.valid for column in columns.values()], axis=1)
    if weights is not None:
        valid = valid & (weights > 0)[:, None]
    draws = _draw(values, valid, codes, resampling, weights)
    for index, (name, column) in enumerate(columns.items()):
        estimate = _mean(column, valid[:, index], codes, draws[:, index], weights)
        yield name, estimate
        if name == "belief_distortion_error":
            yield "noise_floor", noise.floor
            yield "excess_belief_distortion", _excess(estimate, draws[:, index], noise)
    if "belief_distortion_error" in columns:
        yield "decision_spread", noise.decision
        yield "elicitation_spread", noise.elicitation


def _draw(
    values: Floats, valid: NDArray[np.bool_], units: NDArray[np.intp], resampling: Resampling, weights: Floats | None
) -> Floats:
    """(n_resamples, measures) means; all slices of a run draw the same units when they hold the same."""
    rng = np.random.default_rng([resampling.seed, 0])
    if weights is None:
        return bootstrap_means(values, valid, units, resampling.n_resamples, rng)
    return weighted_means(values, valid * weights[:, None], units, resampling.n_resamples, rng)


def weighted_means(
    values: Floats, weights: Floats, units: NDArray[np.intp], n_resamples: int, rng: np.random.Generator
) -> Floats:
    """`bootstrap_means` with weights (items, measures), 0 where a value is not valid: (n_resamples, measures)."""
    held = np.where(weights > 0, values, 0.0)
    sums = np.hstack([unit_sums(held * weights, units), unit_sums(weights, units)])
    every = np.ones(sums.shape, dtype=bool)
    # Means over the units drawn: the numbers of units cancel in the ratio, the sums of values and of weights remain.
    drawn = bootstrap_means(sums, every, np.arange(len(sums)), n_resamples, rng)
    above, below = np.hsplit(drawn, 2)
    return np.divide(above, below, out=np.full_like(below, np.nan), where=below > 0)


def _mean(
    column: Column, valid: NDArray[np.bool_], units: NDArray[np.intp], draws: Floats, weights: Floats | None
) -> Estimate:
    """The mean over the valid items; where every unit has the same proportion, as at 0 or 1, Wilson's interval."""
    n = int(valid.sum())
    if n == 0:
        return NOTHING
    kept = column.values[valid]
    mean = float(kept.mean() if weights is None else np.average(kept, weights=weights[valid]))
    n_units = len(np.unique(units[valid]))
    low, high = interval(draws, n_units > 1)
    alike = low is not None and high is not None and high - low < NO_WIDTH
    if column.proportion and (alike or mean in (0.0, 1.0)):
        low, high = wilson_interval(mean, n_units)
    return Estimate(mean, low, high, n)


def _excess(distortion: Estimate, draws: Floats, noise: Noise) -> Estimate:
    """Eq. 5, resample by resample; None without a floor or without a distortion."""
    if noise.floor.value is None or noise.draws is None or distortion.value is None:
        return NOTHING
    low, high = interval(excess(draws, noise.draws), distortion.low is not None)
    return Estimate(excess(distortion.value, noise.floor.value), low, high, distortion.n)
