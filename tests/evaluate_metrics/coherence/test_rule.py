import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluate_metrics.coherence.rule import acts, expected_costs, p_star

costs = st.floats(1e-3, 1e6)
beliefs = st.floats(0, 1)


@pytest.mark.parametrize(
    ("cost_fp", "cost_fn", "threshold"), [(10, 1, 0.909), (10, 2, 0.833), (1, 1, 0.5), (2, 10, 0.167), (1, 10, 0.091)]
)
def test_the_papers_thresholds(cost_fp, cost_fn, threshold):
    assert round(p_star(cost_fp, cost_fn), 3) == threshold


@given(costs, costs)
def test_a_tie_acts(cost_fp, cost_fn):
    assert acts(p_star(cost_fp, cost_fn), cost_fp, cost_fn) is True


@given(beliefs, costs, costs)
def test_the_action_is_the_cheaper_one(p, cost_fp, cost_fn):
    act, hold = expected_costs(p, cost_fp, cost_fn)
    if not math.isclose(act, hold, rel_tol=1e-6, abs_tol=2e-9 * (cost_fp + cost_fn)):
        assert acts(p, cost_fp, cost_fn) == (act < hold)


@given(beliefs, costs, costs, st.sampled_from([1e-6, 1e-3, 100, 1e6]))
def test_the_unit_of_the_costs_does_not_matter(p, cost_fp, cost_fn, scale):
    if abs(p - p_star(cost_fp, cost_fn)) > 1e-8:
        assert acts(p, cost_fp, cost_fn) == acts(p, cost_fp * scale, cost_fn * scale)


def test_the_tolerance_is_in_probability_and_small():
    assert acts(0.5 - 0.9e-9, 7, 7)
    assert not acts(0.5 - 1.1e-9, 7, 7)


def test_arrays_broadcast():
    decided = acts(np.array([0.05, 0.1, 0.95]), [[1], [10]], [[10], [1]])
    assert decided.tolist() == [[False, True, True], [False, False, True]]
    assert p_star(np.array([1, 10]), 10).tolist() == [1 / 11, 0.5]


@pytest.mark.parametrize("p", [-0.01, 1.01, math.nan, [0.2, math.nan]])
def test_what_is_no_belief_is_refused(p):
    with pytest.raises(ValueError, match="belief"):
        acts(p, 1, 1)


@pytest.mark.parametrize(("cost_fp", "cost_fn", "name"), [(0, 1, "cost_fp"), (1, -1, "cost_fn"), (1, math.inf, "fn")])
def test_what_is_no_cost_is_refused(cost_fp, cost_fn, name):
    for function in (lambda: p_star(cost_fp, cost_fn), lambda: acts(0.5, cost_fp, cost_fn)):
        with pytest.raises(ValueError, match=name):
            function()
