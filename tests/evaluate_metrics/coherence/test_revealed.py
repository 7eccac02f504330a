import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluate_metrics.coherence.revealed import LOSSES, revealed_beliefs, single_switch
from evaluate_metrics.coherence.rule import acts

PROFILES = {
    # decisions at 0.1 ... 0.9: A acts, H holds, ? was not read -> (single switch, belief revealed)
    "HHHHHHHHH": (True, 0.05),
    "AHHHHHHHH": (True, 0.15),
    "AAHHHHHHH": (True, 0.25),
    "AAAHHHHHH": (True, 0.35),
    "AAAAHHHHH": (True, 0.45),
    "AAAAAHHHH": (True, 0.55),
    "AAAAAAHHH": (True, 0.65),
    "AAAAAAAHH": (True, 0.75),
    "AAAAAAAAH": (True, 0.85),
    "AAAAAAAAA": (True, 0.95),
    "HAHHHHHHH": (False, None),  # from hold to act and back
    "HHHHHHHHA": (False, None),  # one switch, the wrong way round
    "HHHHAAAAA": (False, None),
    "AHAHHHHHH": (False, None),
    "AAAAHAAAA": (False, None),
    "AHAHAHAHA": (False, None),
    "AAA?HHHHH": (False, None),  # whichever it was, one is missing
    "?AAAHHHHH": (False, None),
    "AAAAAAAA?": (False, None),
    "?????????": (False, None),
}
CODES = {"A": 1, "H": 0, "?": None}


@pytest.mark.parametrize("profile", PROFILES)
def test_profiles(profile):
    single, belief = PROFILES[profile]
    row = [[CODES[letter] for letter in profile]]
    assert single_switch(row).tolist() == [single]
    assert revealed_beliefs(row).tolist() == pytest.approx([math.nan if belief is None else belief], nan_ok=True)


def test_many_profiles_are_read_as_each_alone():
    rows = [[CODES[letter] for letter in profile] for profile in PROFILES]
    assert single_switch(rows).tolist() == [single for single, _ in PROFILES.values()]
    one_by_one = [revealed_beliefs([row])[0] for row in rows]
    assert revealed_beliefs(rows).tolist() == pytest.approx(one_by_one, nan_ok=True)


@given(st.floats(0, 1))
def test_a_coherent_agent_reveals_its_belief_to_within_half_an_interval(belief):
    profile = acts(belief, LOSSES, [10 - loss for loss in LOSSES])
    assert single_switch([profile]).all()
    assert revealed_beliefs([profile])[0] == pytest.approx(belief, abs=0.05 + 1e-8)


def test_thresholds_may_be_others():
    rows = [[0, 0], [1, 0], [1, 1], [0, 1]]
    assert revealed_beliefs(rows, [0.2, 0.6]).tolist() == pytest.approx([0.1, 0.4, 0.8, math.nan], nan_ok=True)


@pytest.mark.parametrize("thresholds", [[0.2], [0.6, 0.2], [0.2, 0.2], [0, 0.5], [0.5, 1.0], [0.5, math.nan]])
def test_what_are_no_thresholds_is_refused(thresholds):
    with pytest.raises(ValueError, match="rising thresholds"):
        revealed_beliefs([[1, 0]], thresholds)


@pytest.mark.parametrize("profiles", [[1, 0], [[1, 2]], [[-1, 0]]])
def test_what_are_no_profiles_is_refused(profiles):
    with pytest.raises(ValueError, match="rows of actions"):
        single_switch(profiles)


def test_no_profiles():
    assert revealed_beliefs(np.empty((0, 9))).shape == single_switch(np.empty((0, 9))).shape == (0,)
