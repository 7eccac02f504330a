"""The noise floor of runs and systems from prompts that were answered twice (P1 §3.5, Eq. 4; Appendix A).

m_C is the mean absolute difference of two draws of one decision prompt: the two repetitions of a base run, an adapter's
run and its resample. m_A is the same for the elicitations of a case. The interval of an adapter's floor is P1's
hierarchical bootstrap: adapters are drawn, then prompts within each, the draws of a prompt staying together; m_A and a
base run's m_C resample whole cases.

>>> draws = [Draw("wildfire-03", "wildfire", "held_out", f"wildfire-03.elicitation.direct.r{r}", "run", p)
...          for r, p in enumerate((0.2, 0.3, 0.5), start=1)]
>>> [round(pair.difference, 3) for pair in draw_pairs(draws)], round(pair_spread(draw_pairs(draws), "case").mean, 3)
([0.1, 0.3, 0.2], 0.2)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from evaluate_metrics.coherence.floor import Spread, noise_floor
from evaluate_metrics.coherence.references import UNITS
from evaluate_metrics.coherence.resampling import bootstrap_means
from evaluate_metrics.estimates import NOTHING, QUIET, Estimate, Floats, Noise, Resampling, interval, weighted_means

REPLICATES = 10_000
"""Of the hierarchical bootstrap (P1 Appendix A)."""

CHUNK_DRAWS = 2**21
"""Prompts drawn at once, 8 MiB."""


class Draw(NamedTuple):
    """One parseable belief: where it belongs, which prompt it answers, in which run, and p."""

    case_id: str
    domain: str
    domain_status: str
    item_id: str
    run: str
    belief: float

    @property
    def stem(self) -> str:
        """The prompt: an item id without its repetition."""
        return self.item_id.rpartition(".")[0]


class Pair(NamedTuple):
    """The absolute difference of two draws of one prompt; `key` tells it from every other pair."""

    case_id: str
    domain: str
    domain_status: str
    stem: str
    key: tuple[str, str, str, str]
    difference: float


def draw_pairs(draws: Iterable[Draw]) -> tuple[Pair, ...]:
    """All pairs of draws of one prompt."""
    by_stem: dict[str, list[Draw]] = {}
    for draw in draws:
        by_stem.setdefault(draw.stem, []).append(draw)
    return tuple(
        Pair(
            *first[:3], stem, (first.run, first.item_id, second.run, second.item_id), abs(first.belief - second.belief)
        )
        for stem, repeated in by_stem.items()
        for first, second in combinations(repeated, 2)
    )


@dataclass(frozen=True)
class PairSpread(Spread):
    """A `Spread` whose differences belong to units: their mean is over pairs, a resample draws whole units."""

    units: NDArray[np.intp]
    weights: Floats | None = None

    def resample(self, n_resamples: int, rng: np.random.Generator) -> Floats:
        """(n_resamples,) mean differences, each over the pairs of the units drawn."""
        assert self.differences is not None
        column = self.differences[:, None]
        if self.weights is not None:
            return weighted_means(column, self.weights[:, None], self.units, n_resamples, rng)[:, 0]
        return bootstrap_means(column, np.ones(column.shape, dtype=bool), self.units, n_resamples, rng)[:, 0]

    @property
    def several(self) -> bool:
        """Whether there is more than one unit."""
        return bool(self.units.any())


def pair_spread(pairs: Sequence[Pair], unit: str, weights: Mapping[str, float] | None = None) -> PairSpread | None:
    """The spread of pairs; None without any.

    unit: what a resample draws, one of case, domain, item (each pair by itself); weights: of a pair, by domain status.
    """
    if weights is not None:
        pairs = [pair for pair in pairs if weights[pair.domain_status] > 0]
    if not pairs:
        return None
    differences = np.array([pair.difference for pair in pairs])
    column = UNITS[unit]
    units = [index if column is None else getattr(pair, column) for index, pair in enumerate(pairs)]
    weight = None if weights is None else np.array([weights[pair.domain_status] for pair in pairs])
    mean = float(differences.mean() if weight is None else np.average(differences, weights=weight))
    return PairSpread(mean, differences, np.unique(units, return_inverse=True)[1], weight)


@dataclass(frozen=True)
class AdapterSpread(Spread):
    """A `Spread` of pairs by adapter and prompt: for each adapter the sums of differences and the pairs of a prompt."""

    prompts: tuple[tuple[Floats, Floats], ...]

    def resample(self, n_resamples: int, rng: np.random.Generator) -> Floats:
        """(n_resamples,) mean differences of the hierarchical bootstrap.

        As many adapters are drawn as there are, then for each as many prompts as it has, again each time it is drawn;
        the mean is over all pairs of the prompts drawn.
        """
        drawn = rng.integers(0, len(self.prompts), size=(n_resamples, len(self.prompts)))
        sums, pairs = np.zeros(n_resamples), np.zeros(n_resamples)
        for adapter, (differences, counts) in enumerate(self.prompts):
            replicate = np.nonzero(drawn == adapter)[0]  # a replicate occurs once for each time it draws the adapter
            step = max(1, CHUNK_DRAWS // len(differences))
            for start in range(0, len(replicate), step):
                chunk = replicate[start : start + step]
                picked = rng.integers(0, len(differences), size=(len(chunk), len(differences)), dtype=np.int32)
                sums += np.bincount(chunk, differences[picked].sum(axis=1), n_resamples)
                pairs += np.bincount(chunk, counts[picked].sum(axis=1), n_resamples)
        return sums / pairs

    @property
    def several(self) -> bool:
        """Whether there is more than one prompt."""
        return sum(len(counts) for _, counts in self.prompts) > 1


def adapter_spread(by_adapter: Iterable[Sequence[Pair]]) -> AdapterSpread | None:
    """The spread of the pairs of several adapters; one without a pair is left out, None without any pair."""
    prompts, every = [], []
    for pairs in by_adapter:
        if pairs:
            differences = np.array([pair.difference for pair in pairs])
            codes = np.unique([pair.stem for pair in pairs], return_inverse=True)[1]
            prompts.append((_sums(codes, differences), _sums(codes, np.ones(len(codes)))))
            every.append(differences)
    if not prompts:
        return None
    together = np.concatenate(every)
    return AdapterSpread(float(together.mean()), together, tuple(prompts))


def _sums(codes: NDArray[np.intp], values: Floats) -> Floats:
    return np.asarray(np.bincount(codes, values), dtype=np.float64)


@dataclass(frozen=True)
class Repeats:
    """What the floor of a run is measured from: its pairs, those of its reference beliefs, whether it is an adapter's.

    `elicitation` is empty where the run has no reference beliefs.
    """

    decision: tuple[Pair, ...]
    elicitation: tuple[Pair, ...]
    adapter: bool


def measure_noise(
    runs: Sequence[Repeats],
    status: str,
    resampling: Resampling,
    weights: Mapping[str, float] | None = None,
    stream: int = 1,
) -> Noise:
    """The floor of one run, or of several pooled, all of adapters or none.

    status: a domain status to keep, "" for all; weights: of a pair, by domain status, for base runs; stream: of the
    random numbers, another one for a floor that must be independent. An elicitation that runs share counts once.
    """
    decisions = [[pair for pair in run.decision if status in ("", pair.domain_status)] for run in runs]
    elicited = dict.fromkeys(pair for run in runs for pair in run.elicitation if status in ("", pair.domain_status))
    elicitation = pair_spread(list(elicited), resampling.unit, weights)
    decision: PairSpread | AdapterSpread | None
    if any(run.adapter for run in runs):
        decision, n = adapter_spread(decisions), max(REPLICATES, resampling.n_resamples)
    else:
        decision, n = pair_spread(list(chain(*decisions)), resampling.unit, weights), resampling.n_resamples
    spreads = _estimate(decision, resampling, stream + 1), _estimate(elicitation, resampling, stream + 2)
    if decision is None or elicitation is None:
        return Noise(NOTHING, *spreads)
    assert decision.differences is not None
    rng = np.random.default_rng([resampling.seed, stream])
    replicates = noise_floor(decision.resample(n, rng), elicitation.resample(n, rng))
    bounds = interval(replicates, decision.several and elicitation.several)
    floor = Estimate(noise_floor(decision.mean, elicitation.mean), *bounds, len(decision.differences))
    return Noise(floor, *spreads, replicates[: resampling.n_resamples], replicates)


def _estimate(spread: PairSpread | AdapterSpread | None, resampling: Resampling, stream: int) -> Estimate:
    """m_C or m_A: the mean absolute difference over pairs."""
    if spread is None or spread.differences is None:
        return NOTHING
    draws = spread.resample(resampling.n_resamples, np.random.default_rng([resampling.seed, stream]))
    return Estimate(spread.mean, *interval(draws, spread.several), len(spread.differences))


def mix_noise(parts: Sequence[tuple[float, Noise]]) -> Noise:
    """The floor of a routed system: its components' floors in the shares of the beliefs that each reports.

    parts: (share, floor), the shares adding up to 1; a component without a share needs no floor. n: pairs of the parts.
    """
    mixed = [(share, noise) for share, noise in parts if share > 0]
    if not mixed or any(noise.floor.value is None for _, noise in mixed):
        return QUIET
    draws, replicates = (_mix(mixed, name) for name in ("draws", "replicates"))
    value = sum(share * (noise.floor.value or 0.0) for share, noise in mixed)
    several = all(noise.floor.low is not None for _, noise in mixed)
    n = sum(noise.floor.n for _, noise in mixed)
    return Noise(Estimate(value, *interval(replicates, several), n), draws=draws, replicates=replicates)


def _mix(parts: Sequence[tuple[float, Noise]], name: str) -> Floats:
    mixed: Floats = np.sum([share * getattr(noise, name) for share, noise in parts], axis=0)
    return mixed
