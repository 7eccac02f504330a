"""Rewards of literal answers: what is read is what the published parser reads, everything else is 0."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from training.rewards import REWARDS, alignment, belief, decision, is_read, read_action, read_belief


def block(*lines: str) -> str:
    return "\n".join(["<final>", *lines, "</final>"])


def columns(credit: str, text: str, reason: str = "stop", reported: float | None = None, **more: Any) -> dict[str, Any]:
    own = {
        "credit": credit, "text": text, "finish_reason": reason, "reported": reported, "posterior": 0.4, "cost_fp": 3,
        "cost_fn": 7, "act_word": "ISSUE WARNING", "hold_word": "NO WARNING", **more,
    }  # fmt: skip
    return {name: [value] for name, value in own.items()}


ACT, HOLD = block("Decision: ISSUE WARNING"), block("Decision: NO WARNING")
BELIEFS = [
    (block("Probability: 0.4"), "stop", 1.0),
    ("Some reasoning.\n" + block("Probability: 0.9"), "stop", 0.75),
    (block("**Probability:** 40%"), "stop", 1.0),
    ("Probability: 1", "stop", 0.64),
    (block("Probability: about 0.4"), "stop", 0.0),
    (block("Probability: 85"), "stop", 0.0),
    (block("Probability: <a single number between 0 and 1>"), "stop", 0.0),
    ("<final>\nProbability: 0.4", "length", 0.0),
    ("I think 0.4.", "stop", 0.0),
    (ACT, "stop", 0.0),
    ("", "stop", 0.0),
]
# At p* = 0.4 and costs 3 and 7 acting costs 1.8, holding 2.8: the regret of holding is 1 of at most 7.
DECISIONS = [
    (ACT, "stop", 1.0),
    (HOLD, "stop", 1 - 1 / 7),
    ("Weigh both.\n" + block("Decision: issue warning"), "stop", 1.0),
    (block("Decision: ISSUE WARNING or NO WARNING"), "stop", 0.0),
    (block("Decision: WARN"), "stop", 0.0),
    (block("Probability: 0.4"), "stop", 0.0),
    ("<final>\nDecision: NO WARNING", "length", 0.0),
]
ALIGNMENTS = [
    (ACT, 0.4, 1.0),
    (HOLD, 0.4, 1 - 1 / 7),
    (HOLD, 0.1, 1.0),
    (ACT, 0.1, 1 - 2 / 7),  # 2.7 against 0.7
    (ACT, 0.3, 1.0),  # a tie: both actions are optimal
    (HOLD, 0.3, 1.0),
    (HOLD, 1.0, 0.0),
    (ACT, None, 0.0),
    ("no decision", 0.4, 0.0),
]


@pytest.mark.parametrize(("text", "reason", "expected"), BELIEFS)
def test_the_reward_of_a_belief(text: str, reason: str, expected: float) -> None:
    assert belief(**columns("belief", text, reason)) == [pytest.approx(expected)]


@pytest.mark.parametrize(("text", "reason", "expected"), DECISIONS)
def test_the_reward_of_a_decision(text: str, reason: str, expected: float) -> None:
    assert decision(**columns("decision", text, reason)) == [pytest.approx(expected)]


@pytest.mark.parametrize(("text", "reported", "expected"), ALIGNMENTS)
def test_the_reward_of_alignment(text: str, reported: float | None, expected: float) -> None:
    """The reported belief takes the posterior's place, however wrong it is."""
    assert alignment(**columns("alignment", text, reported=reported)) == [pytest.approx(expected)]


def test_each_answer_is_rewarded_for_what_it_is_credited_with_and_nothing_else() -> None:
    for credit in ("belief", "decision", "alignment"):
        given = [reward(**columns(credit, ACT, reported=0.4))[0] for reward in REWARDS]
        assert [value is not None for value in given] == [reward.__name__ == credit for reward in REWARDS]


@given(st.text(max_size=200), st.sampled_from(["stop", "length"]), st.floats(0, 1), st.floats(0, 1), st.integers(1, 9))
def test_a_reward_is_finite_and_between_0_and_1_and_0_where_nothing_is_read(
    text: str, reason: str, posterior: float, reported: float, fp: int
) -> None:
    for credit, reward in zip(("belief", "decision", "alignment"), REWARDS, strict=True):
        for said in (text, block(text), ACT, block("Probability: 0.7")):
            given = columns(credit, said, reason, reported, posterior=posterior, cost_fp=fp, cost_fn=10 - fp)
            (value,) = reward(**given)
            assert value is not None and 0 <= value <= 1
            if not is_read({name: values[0] for name, values in given.items()}):
                assert value == 0


def test_reading() -> None:
    assert read_belief(block("Probability: 0.25"), "stop") == 0.25
    assert read_belief(ACT, "stop") is None
    assert [read_action(text, "stop", "ISSUE WARNING", "NO WARNING") for text in (ACT, HOLD, "")] == [1, 0, None]
