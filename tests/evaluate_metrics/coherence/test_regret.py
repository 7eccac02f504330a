"""The formulas of P2: by hand, against their definitions written out, and for whatever beliefs, actions and costs."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluate_metrics.coherence.regret import (
    alignment_reward,
    belief_reward,
    decision_reward,
    decompose,
    expected_loss,
    implied_action,
    largest_regret,
)
from evaluate_metrics.coherence.rule import acts, p_star

costs = st.one_of(st.integers(1, 9).map(float), st.floats(1e-3, 1e6))
probabilities = st.one_of(st.integers(0, 50).map(lambda n: n / 50), st.floats(0, 1))
actions = st.sampled_from([0, 1])


def off_the_threshold(p, fp, fn):
    return abs(p - p_star(fp, fn)) > 1e-8


# --- An independent reference: the definitions of DESIGN §8, nothing shared with what is tested ----------------------


def loss(action, outcome, fp, fn):
    return fp if (action, outcome) == (1, 0) else fn if (action, outcome) == (0, 1) else 0.0


def expected(action, p, fp, fn):
    return p * loss(action, 1, fp, fn) + (1 - p) * loss(action, 0, fp, fn)


def best(p, fp, fn):
    return 1 if p * (fp + fn) >= fp - 1e-9 * (fp + fn) else 0


def reference(action, belief, posterior, fp, fn):
    taken, implied, optimal = (
        expected(a, posterior, fp, fn) for a in (action, best(belief, fp, fn), best(posterior, fp, fn))
    )
    return [difference / max(fp, fn) for difference in (taken - optimal, implied - optimal, taken - implied)]


@given(actions, probabilities, probabilities, costs, costs)
def test_it_agrees_with_the_definitions_written_out(action, belief, posterior, fp, fn):
    # At a tie the definitions leave a rounding error, or what the rule's tolerance lets pass: 2e-9 of the costs.
    tolerance = 1e-12 if off_the_threshold(posterior, fp, fn) else 1e-8
    ours = decompose(action, belief, posterior, fp, fn)
    assert list(ours) == pytest.approx(reference(action, belief, posterior, fp, fn), abs=tolerance)
    raw = decompose(action, belief, posterior, fp, fn, normalised=False)
    assert [part / max(fp, fn) for part in raw] == pytest.approx(list(ours), abs=1e-12)
    assert expected_loss(action, posterior, fp, fn) == pytest.approx(expected(action, posterior, fp, fn), rel=1e-12)


@given(actions, probabilities, probabilities, costs, costs)
def test_the_parts_add_up_and_stay_in_their_ranges(action, belief, posterior, fp, fn):
    regrets = decompose(action, belief, posterior, fp, fn)
    assert regrets.total == regrets.belief_loss + regrets.optimisation_residual  # to the last bit
    assert 0 <= regrets.total <= 1 and 0 <= regrets.belief_loss <= 1 and -1 <= regrets.optimisation_residual <= 1
    assert math.copysign(1, regrets.total) == math.copysign(1, regrets.belief_loss) == 1  # no -0.0


@given(st.lists(st.tuples(actions, probabilities, probabilities, costs, costs), min_size=1, max_size=30))
def test_arrays_are_their_elements_and_means_add_up(items):
    columns = [np.array(column, dtype=float) for column in zip(*items, strict=True)]
    regrets = decompose(*columns)
    for index, item in enumerate(items):
        assert [part[index] for part in regrets] == list(decompose(*item))
    assert regrets.total.mean() == pytest.approx(
        regrets.belief_loss.mean() + regrets.optimisation_residual.mean(), abs=1e-12
    )


@pytest.mark.parametrize(("fp", "fn"), [(1, 9), (3, 7), (5, 5), (9, 1), (10, 1)])
def test_the_normaliser_is_the_largest_regret_that_there_is(fp, fn):
    posteriors = np.linspace(0, 1, 1001)
    regrets = [decompose(action, None, posteriors, fp, fn, normalised=False).total for action in (0, 1)]
    assert np.max(regrets) == largest_regret(fp, fn) == max(fp, fn)


def test_by_hand():
    """Costs 2 and 8: the threshold is 0.2. At 0.6, acting costs 0.8 and holding 4.8."""
    assert decompose(1, 0.9, 0.6, 2, 8, normalised=False) == pytest.approx((0, 0, 0))
    assert decompose(0, 0.1, 0.6, 2, 8, normalised=False) == pytest.approx((4, 4, 0))
    assert decompose(0, 0.9, 0.6, 2, 8) == pytest.approx((0.5, 0, 0.5))
    assert decompose(1, 0.1, 0.6, 2, 8) == pytest.approx((0, 0.5, -0.5))  # better than its belief
    assert (expected_loss(1, 0.6, 2, 8), expected_loss(0, 0.6, 2, 8)) == pytest.approx((0.8, 4.8))


@given(probabilities, costs, costs)
def test_a_tie_acts_and_costs_nothing_either_way(belief, fp, fn):
    threshold = p_star(fp, fn)
    assert implied_action(threshold, fp, fn) == 1
    for posterior in (threshold, max(threshold - 0.9e-9, 0), max(threshold - 1e-9, 0), min(threshold + 1e-9, 1)):
        for action in (0, 1):
            assert decompose(action, belief, posterior, fp, fn) == (0, 0, 0)
    assert alignment_reward(0, threshold, fp, fn) == alignment_reward(1, threshold, fp, fn) == 1


@given(probabilities, costs, costs)
def test_the_implied_action_is_the_rules(p, fp, fn):
    assert implied_action(p, fp, fn) == acts(p, fp, fn)


@given(actions, probabilities, probabilities, costs, costs, st.sampled_from([1e-3, 7, 1e4]))
def test_the_unit_of_the_costs_does_not_matter(action, belief, posterior, fp, fn, scale):
    if off_the_threshold(posterior, fp, fn) and off_the_threshold(belief, fp, fn):
        scaled = decompose(action, belief, posterior, fp * scale, fn * scale)
        assert scaled == pytest.approx(decompose(action, belief, posterior, fp, fn), abs=1e-12)


@pytest.mark.parametrize(("belief", "posterior"), [(0.3, 0.8), (0.62, 0.4), (0.5, 0.5), (0.0, 1.0)])
def test_belief_loss_over_all_thresholds_is_half_the_squared_error(belief, posterior):
    """The equivalence of the quadratic score and the even mixture of threshold losses (Gneiting and Raftery, 2007)."""
    thresholds = (np.arange(100_000) + 0.5) / 100_000
    regrets = decompose(0, belief, posterior, thresholds, 1 - thresholds, normalised=False)
    assert regrets.belief_loss.mean() == pytest.approx((belief - posterior) ** 2 / 2, abs=1e-5)
    assert 1 - 2 * regrets.belief_loss.mean() == pytest.approx(belief_reward(belief, posterior), abs=1e-5)


# --- What was not read ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("nothing", [None, math.nan])
def test_a_part_is_nan_where_what_it_needs_was_not_read(nothing):
    assert np.isnan(decompose(nothing, 0.1, 0.6, 2, 8)).tolist() == [True, False, True]
    assert np.isnan(decompose(0, nothing, 0.6, 2, 8)).tolist() == [False, True, True]
    assert np.isnan(decompose(nothing, nothing, 0.6, 2, 8)).all()
    assert math.isnan(implied_action(nothing, 2, 8)) and math.isnan(expected_loss(nothing, 0.6, 2, 8))


def test_lists_may_have_gaps():
    regrets = decompose([1, None, 0], [0.1, 0.3, None], 0.6, 2, 8)
    assert regrets.total.tolist() == pytest.approx([0, np.nan, 0.5], nan_ok=True)
    assert regrets.belief_loss.tolist() == pytest.approx([0.5, 0, np.nan], nan_ok=True)
    assert [part.shape for part in regrets] == [(3,)] * 3


@given(probabilities, probabilities, actions, costs, costs)
def test_rewards_are_their_formulas(belief, posterior, action, fp, fn):
    assert belief_reward(belief, posterior) == pytest.approx(1 - (belief - posterior) ** 2, abs=1e-12)
    assert decision_reward(action, posterior, fp, fn) == 1 - decompose(action, None, posterior, fp, fn).total
    aligned = 1 - reference(action, belief, belief, fp, fn)[0]
    assert alignment_reward(action, belief, fp, fn) == pytest.approx(aligned, abs=1e-8)
    for reward in (
        belief_reward(belief, posterior),
        decision_reward(action, posterior, fp, fn),
        alignment_reward(action, belief, fp, fn),
    ):
        assert 0 <= reward <= 1 and isinstance(reward, float)


def test_what_was_not_read_earns_nothing():
    for nothing in (None, math.nan):
        assert belief_reward(nothing, 0.6) == decision_reward(nothing, 0.6, 2, 8) == 0
        assert alignment_reward(nothing, 0.3, 2, 8) == alignment_reward(1, nothing, 2, 8) == 0
    assert belief_reward([None, 0.6, 0.1], 0.6).tolist() == pytest.approx([0, 1, 0.75])
    assert decision_reward([None, True, False], 0.6, 2, 8).tolist() == pytest.approx([0, 1, 0.5])
    assert alignment_reward([1, None, 0, 0], [0.3, 0.3, None, 0.3], 2, 8).tolist() == pytest.approx([1, 0, 0, 0.875])


def test_rewards_at_their_ends():
    assert (belief_reward(0, 1), belief_reward(0.34, 0.34)) == (0, 1)
    assert (decision_reward(0, 1, 2, 8), decision_reward(1, 0, 8, 2), decision_reward(1, 1, 2, 8)) == (0, 0, 1)
    assert (alignment_reward(0, 1, 2, 8), alignment_reward(1, 1, 2, 8)) == (0, 1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"action": -1}, "an action must be 1"),
        ({"action": [1, 0.5]}, "an action must be 1"),
        ({"belief": 34}, r"a belief must be in \[0, 1\]"),
        ({"belief": -0.01}, r"a belief must be in \[0, 1\]"),
        ({"belief": math.inf}, r"a belief must be in \[0, 1\]"),
        ({"posterior": math.nan}, r"a belief must be in \[0, 1\]"),
        ({"posterior": 1.01}, r"a belief must be in \[0, 1\]"),
        ({"cost_fp": 0}, "cost_fp must be a finite number above 0"),
    ],
)
def test_what_is_none_is_refused(change, message):
    decision = {"action": 1, "belief": 0.3, "posterior": 0.6, "cost_fp": 2, "cost_fn": 8}
    with pytest.raises(ValueError, match=message):
        decompose(**{**decision, **change})


@pytest.mark.parametrize("posterior", [None, math.nan, 2])
def test_a_reward_needs_the_posterior(posterior):
    with pytest.raises(ValueError, match="a belief must be in"):
        belief_reward(0.3, posterior)
