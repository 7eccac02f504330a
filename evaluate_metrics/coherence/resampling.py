"""95% intervals: a seeded bootstrap over units (cases), and Wilson's interval where resamples are all alike.

Items of one case are not independent, so whole units are drawn. Every measure is a mean over its valid items, that is a
ratio of two sums, so a resample needs only each unit's sums: (draws of each unit) @ (sums by unit).

>>> import numpy as np
>>> values, units = np.array([[0.1], [0.3], [0.2], [0.4]]), np.array([0, 0, 1, 1])
>>> draws = bootstrap_means(values, np.ones((4, 1), bool), units, 1000, np.random.default_rng(124))
>>> draws.shape, percentile_interval(draws[:, 0])
((1000, 1), [0.2, 0.30000000000000004])
>>> [round(bound, 3) for bound in wilson_interval(0.0, 80)]
[0.0, 0.046]
"""

import numpy as np
from numpy.typing import NDArray

LEVEL = 0.95
NORMAL_QUANTILE = 1.959963984540054  # of (1 + LEVEL) / 2

# Resamples are drawn in chunks of this many (resample, unit) cells, 16 MiB: with as many units as items, 1,000
# resamples of 25,600 units would otherwise be 200 MB at once.
CHUNK_CELLS = 2**21


def bootstrap_means(
    values: NDArray[np.float64],
    valid: NDArray[np.bool_],
    units: NDArray[np.intp],
    n_resamples: int,
    rng: np.random.Generator,
) -> NDArray[np.float64]:
    """The mean of each column's valid values in each of `n_resamples` resamples of the units.

    values, valid: (items, measures); units: (items,), the unit of each item as a code 0, 1, ...
    Returns (n_resamples, measures), NaN where a resample holds no valid value. All columns share the draws, so that
    measures of one resample may be combined.
    """
    n_units = int(units.max(initial=-1)) + 1
    sums, counts = unit_sums(np.where(valid, values, 0.0), units), unit_sums(valid, units)
    means = np.empty((n_resamples, values.shape[1]))
    if n_units == 0:
        return np.full_like(means, np.nan)
    step = max(1, CHUNK_CELLS // n_units)
    for start in range(0, n_resamples, step):
        weights = _draw_weights(min(step, n_resamples - start), n_units, rng)
        drawn = weights @ counts
        means[start : start + step] = np.divide(weights @ sums, drawn, out=np.full_like(drawn, np.nan), where=drawn > 0)
    return means


def unit_sums(columns: NDArray[np.float64] | NDArray[np.bool_], units: NDArray[np.intp]) -> NDArray[np.float64]:
    """Sum each column of `columns` (items, measures) within each unit: (units, measures)."""
    size = int(units.max(initial=-1)) + 1
    sums = [np.bincount(units, weights=column, minlength=size) for column in columns.T]
    return np.stack(sums, axis=1) if sums else np.empty((size, 0))


def _draw_weights(n_resamples: int, n_units: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """How often each unit is drawn in each resample: (n_resamples, n_units), every row summing to n_units."""
    drawn = rng.integers(0, n_units, size=(n_resamples, n_units))
    drawn += np.arange(n_resamples)[:, None] * n_units  # one bincount for all rows: each has its own range of bins
    counts = np.bincount(drawn.ravel(), minlength=n_resamples * n_units)
    return counts.reshape(n_resamples, n_units).astype(np.float64)


def percentile_interval(draws: NDArray[np.float64]) -> list[float] | None:
    """The central 95% of the draws that are defined, as [low, high]; None when none is."""
    defined = draws[~np.isnan(draws)]
    if not defined.size:
        return None
    low, high = np.percentile(defined, [50 * (1 - LEVEL), 50 * (1 + LEVEL)])
    return [float(low), float(high)]


def wilson_interval(proportion: float, n: int) -> list[float]:
    """Wilson's score interval [low, high] for a proportion among n independent units.

    Used where every resample gives the same proportion, which would make a percentile interval of no width. Pass the
    number of units, not of items: 80 cases without an error bound the rate by 0.046, however many prompts each one had.
    Raises ValueError when n is below 1.
    """
    if n < 1:
        raise ValueError(f"Wilson's interval needs at least one unit, got {n}")
    z2 = NORMAL_QUANTILE**2
    centre = proportion + z2 / (2 * n)
    half = NORMAL_QUANTILE * np.sqrt(proportion * (1 - proportion) / n + z2 / (4 * n * n))
    low, high = (centre - half) / (1 + z2 / n), (centre + half) / (1 + z2 / n)
    return [0.0 if proportion == 0 else float(low), 1.0 if proportion == 1 else float(high)]
