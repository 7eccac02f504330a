"""The noise floor: pairs of draws, P1's hierarchical bootstrap against a loop and against all outcomes, mixtures."""

import itertools
import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluate_metrics.estimates import QUIET, Resampling
from evaluate_metrics.floors import (
    REPLICATES,
    Draw,
    Pair,
    Repeats,
    adapter_spread,
    draw_pairs,
    measure_noise,
    mix_noise,
    pair_spread,
)

FEW = Resampling(n_resamples=200)


def pair(difference: float, case: str = "wildfire-01", stem: str = "s", key: int = 0, status: str = "held_out") -> Pair:
    return Pair(case, case.partition("-")[0], status, stem, ("run", str(key), "run", f"{key}'"), difference)


def prompts(differences: list[float], adapter: int = 0) -> list[Pair]:
    return [pair(d, f"wildfire-{i:02d}", f"{adapter}.{i}", 1000 * adapter + i) for i, d in enumerate(differences)]


def loop(adapters: list[list[Pair]], n: int, rng: np.random.Generator) -> list[float]:
    """P1 Appendix A, word by word: adapters with replacement, then prompts within each, the two draws kept together."""
    replicates = []
    for _ in range(n):
        drawn: list[float] = []
        for _ in adapters:
            adapter = adapters[rng.integers(len(adapters))]
            drawn += [adapter[rng.integers(len(adapter))].difference for _ in adapter]
        replicates.append(sum(drawn) / len(drawn))
    return replicates


def test_draws_of_one_prompt_make_pairs_whatever_the_run() -> None:
    draws = [
        Draw("wildfire-01", "wildfire", "held_out", "wildfire-01.x.r1", "run", 0.2),
        Draw("wildfire-01", "wildfire", "held_out", "wildfire-01.x.r2", "run", 0.5),
        Draw("wildfire-01", "wildfire", "held_out", "wildfire-01.y.r1", "run", 0.9),
        Draw("wildfire-01", "wildfire", "held_out", "wildfire-01.x.r1", "run-resample", 0.4),
    ]
    assert [round(each.difference, 9) for each in draw_pairs(draws)] == [0.3, 0.2, 0.1]
    assert {each.stem for each in draw_pairs(draws)} == {"wildfire-01.x"}
    assert len({each.key for each in draw_pairs(draws)}) == 3


def test_the_hierarchical_bootstrap_agrees_with_a_loop() -> None:
    rng = np.random.default_rng(5)
    adapters = [
        prompts(list(rng.exponential(scale, size)), i)
        for i, (scale, size) in enumerate(((0.05, 30), (0.15, 20), (0.3, 12)))
    ]
    spread = adapter_spread(adapters)
    assert spread is not None
    assert spread.mean == pytest.approx(sum(p.difference for a in adapters for p in a) / 62, abs=1e-15)
    ours, theirs = spread.resample(20_000, np.random.default_rng(1)), loop(adapters, 4000, np.random.default_rng(2))
    for level in (2.5, 25, 50, 75, 97.5):
        assert np.percentile(ours, level) == pytest.approx(np.percentile(theirs, level), abs=0.006)
    assert ours.std() == pytest.approx(np.std(theirs), rel=0.05)


def test_the_hierarchical_bootstrap_draws_every_outcome_as_often_as_it_should() -> None:
    """Two adapters, of two prompts and of one: all 16 equally likely draws of each pair of adapters, by hand."""
    adapters = [prompts([0.0, 0.3], 0), prompts([0.6], 1)]
    outcomes: Counter[float] = Counter()
    for first, second in itertools.product((0, 1), repeat=2):
        within = [
            list(itertools.product([p.difference for p in adapters[a]], repeat=len(adapters[a])))
            for a in (first, second)
        ]
        for draw in itertools.product(*within):
            values = [value for each in draw for value in each]
            outcomes[round(sum(values) / len(values), 9)] += 1 / 4 / math.prod(len(each) for each in within)
    spread = adapter_spread(adapters)
    assert spread is not None
    drawn = Counter(np.round(spread.resample(40_000, np.random.default_rng(3)), 9).tolist())
    assert set(drawn) == set(outcomes)
    for value, probability in outcomes.items():
        assert drawn[value] / 40_000 == pytest.approx(probability, abs=0.01), value


@given(st.lists(st.lists(st.floats(0, 1), min_size=1, max_size=6), min_size=1, max_size=4), st.integers(0, 99))
def test_replicates_lie_between_the_smallest_and_the_largest_difference(values: list[list[float]], seed: int) -> None:
    spread = adapter_spread([prompts(each, i) for i, each in enumerate(values)])
    assert spread is not None
    every = [value for each in values for value in each]
    assert spread.mean == pytest.approx(math.fsum(every) / len(every))
    draws = spread.resample(50, np.random.default_rng(seed))
    assert draws.shape == (50,) and min(every) - 1e-9 <= draws.min() and draws.max() <= max(every) + 1e-9
    assert np.array_equal(draws, spread.resample(50, np.random.default_rng(seed)))


def test_several_draws_of_a_prompt_stay_together() -> None:
    """One prompt of three draws is one unit: every replicate is its mean."""
    spread = adapter_spread([[pair(0.1, key=1), pair(0.2, key=2), pair(0.3, key=3)]])
    assert spread is not None and spread.mean == pytest.approx(0.2)
    assert spread.resample(20, np.random.default_rng(0)).tolist() == pytest.approx([0.2] * 20)
    assert not spread.several


def test_nothing_drawn_twice_gives_no_floor() -> None:
    assert adapter_spread([[], []]) is None and pair_spread([], "case") is None
    noise = measure_noise([Repeats((), tuple(prompts([0.1, 0.2])), adapter=True)], "", FEW)
    assert noise.floor.value is None and noise.elicitation.value == pytest.approx(0.15) and noise.draws is None


def test_the_floor_is_equation_4() -> None:
    repeats = Repeats(tuple(prompts([0.1, 0.3], 0)), tuple(prompts([0.2, 0.4, 0.6], 1)), adapter=True)
    noise = measure_noise([repeats], "", FEW)
    assert noise.floor.value == pytest.approx(math.sqrt(0.2**2 / 2 + 0.4**2 / 10), abs=1e-15)
    assert (noise.floor.n, noise.decision.n, noise.elicitation.n) == (2, 2, 3)
    assert noise.replicates is not None and len(noise.replicates) == REPLICATES
    assert noise.draws is not None and len(noise.draws) == FEW.n_resamples
    assert noise.floor.low is not None and noise.floor.low < noise.floor.value < (noise.floor.high or 0)


def test_an_elicitation_that_adapters_share_counts_once() -> None:
    shared = tuple(prompts([0.2, 0.4]))
    both = [Repeats(tuple(prompts([0.1], i)), shared, adapter=True) for i in (1, 2)]
    assert measure_noise(both, "", FEW).elicitation.n == 2


def test_a_domain_status_has_its_own_floor() -> None:
    seen, held_out = pair(0.4, "a-1", "x", 1, "seen"), pair(0.2, "b-1", "y", 2, "held_out")
    repeats = Repeats((seen, held_out), (seen, held_out), adapter=False)
    values = [measure_noise([repeats], status, FEW).decision.value for status in ("", "seen", "held_out")]
    assert values == pytest.approx([0.3, 0.4, 0.2])


def test_weights_count_a_status_as_often_as_they_say() -> None:
    pairs = [pair(0.4, "a-1", "x", 1, "seen"), pair(0.1, "b-1", "y", 2, "held_out")]
    spread = pair_spread(pairs, "case", {"seen": 0.5, "held_out": 2.5})
    assert spread is not None and spread.mean == pytest.approx((0.5 * 0.4 + 2.5 * 0.1) / 3)
    draws = Counter(np.round(spread.resample(4000, np.random.default_rng(1)), 9).tolist())
    assert set(draws) == {0.4, 0.1, round(spread.mean, 9)}
    only = pair_spread(pairs, "case", {"seen": 0.0, "held_out": 1.0})
    assert only is not None and (only.mean, len(only.differences or ())) == (0.1, 1)


def noise(level: float) -> Any:
    repeats = Repeats(tuple(prompts([level, 2 * level])), tuple(prompts([level, level], 1)), adapter=True)
    return measure_noise([repeats], "", FEW)


def test_a_mixture_weighs_the_floors_of_its_parts() -> None:
    gate, specialist = noise(0.1), noise(0.2)
    mixed = mix_noise([(0.25, gate), (0.75, specialist)])
    assert mixed.floor.value == pytest.approx(0.25 * gate.floor.value + 0.75 * specialist.floor.value, abs=1e-15)
    assert mixed.floor.n == 4 and mixed.floor.low is not None
    assert mixed.draws == pytest.approx(0.25 * gate.draws + 0.75 * specialist.draws)
    assert mix_noise([(1.0, gate), (0.0, QUIET)]).floor.value == gate.floor.value
    assert mix_noise([(0.5, gate), (0.5, QUIET)]).floor.value is None
    assert mix_noise([]).floor.value is None
