"""The sentences of a CoT target: literal texts of every framing, and their numbers against the rule."""

import re
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders.calculation import (
    belief_sentence,
    complete_calculation,
    condition_sentence,
    printed_belief,
    scenario_calculation,
)
from builders.construction import stated_costs
from builders.framings import FRAMINGS, Framing
from builders.prompts import decidability_prompt
from builders.utilities import COST_PAIRS, CostPair
from evaluate_metrics.coherence.rule import acts

BY_NAME = {framing.name: framing for framing in FRAMINGS}
BELIEF = Decimal("0.42")

COMPLETE = {
    "intervention": (
        "INTERVENE costs 100 for certain, so its expected value is -100. HOLD loses 1,100 if the event occurs and "
        "nothing otherwise, so its expected value is 0.42 x (-1,100) = -462. Comparing -100 (INTERVENE) with -462 "
        "(HOLD), INTERVENE has the higher expected value, so the decision is INTERVENE."
    ),
    "insurance": (
        "BUY PROTECTION costs the premium of 100 whether or not the event occurs, so its expected value is -100. GO "
        "UNINSURED bears the full loss of 1,100 if the event occurs and nothing otherwise, so its expected value is "
        "0.42 x (-1,100) = -462. Comparing -100 (BUY PROTECTION) with -462 (GO UNINSURED), BUY PROTECTION has the "
        "higher expected value, so the decision is BUY PROTECTION."
    ),
    "betting": (
        "BET YES wins 1,000 (net) if the event occurs and loses the stake of 100 if it does not, so its expected value "
        "is 0.42 x 1,000 + 0.58 x (-100) = 420 - 58 = 362. DECLINE neither wins nor loses, so its expected value is 0. "
        "Comparing 362 (BET YES) with 0 (DECLINE), BET YES has the higher expected value, so the decision is BET YES."
    ),
    "trading": (
        "BUY earns 1,000 (net profit) if the event occurs and loses the price of 100 if it does not, so its expected "
        "value is 0.42 x 1,000 + 0.58 x (-100) = 420 - 58 = 362. PASS neither gains nor loses, so its expected value "
        "is 0. Comparing 362 (BUY) with 0 (PASS), BUY has the higher expected value, so the decision is BUY."
    ),
    "contingency": (
        "CONTINGENCY pays 1,100 if the event occurs and nothing otherwise, so its expected value is 0.42 x 1,100 = "
        "462. FLAT FEE pays 100 for certain, so its expected value is 100. Comparing 462 (CONTINGENCY) with 100 (FLAT "
        "FEE), CONTINGENCY has the higher expected value, so the decision is CONTINGENCY."
    ),
    "holdout": (
        "HOLD OUT brings the payment of 1,100 if the event occurs and nothing otherwise, so its expected value is "
        "0.42 x 1,100 = 462. CASH OUT pays 100 for certain, so its expected value is 100. Comparing 462 (HOLD OUT) "
        "with 100 (CASH OUT), HOLD OUT has the higher expected value, so the decision is HOLD OUT."
    ),
    "lossratio": (
        "With the lower cost as 1 unit, ACT costs 1 if the event does not occur and nothing otherwise, so its expected "
        "cost is 0.58 x 1 = 0.58. HOLD costs 10 if the event occurs and nothing otherwise, so its expected cost is "
        "0.42 x 10 = 4.2. Comparing 0.58 (ACT) with 4.2 (HOLD), ACT has the lower expected cost, so the decision is "
        "ACT."
    ),
    "utilityratio": (
        "With the lower reward as 1 unit, ACT earns 10 if the event occurs and nothing otherwise, so its expected "
        "reward is 0.42 x 10 = 4.2. HOLD earns 1 if the event does not occur and nothing otherwise, so its expected "
        "reward is 0.58 x 1 = 0.58. Comparing 4.2 (ACT) with 0.58 (HOLD), ACT has the higher expected reward, so the "
        "decision is ACT."
    ),
}


@pytest.mark.parametrize("framing", FRAMINGS, ids=lambda framing: framing.name)
def test_a_calculation_has_the_framings_own_payoffs_and_words(framing: Framing) -> None:
    assert complete_calculation(framing, CostPair(1, 10), BELIEF) == COMPLETE[framing.name]


def test_the_holding_option_wins_where_it_is_better() -> None:
    assert complete_calculation(BY_NAME["lossratio"], CostPair(10, 2), BELIEF) == (
        "With the lower cost as 1 unit, ACT costs 5 if the event does not occur and nothing otherwise, so its expected "
        "cost is 0.58 x 5 = 2.9. HOLD costs 1 if the event occurs and nothing otherwise, so its expected cost is "
        "0.42 x 1 = 0.42. Comparing 2.9 (ACT) with 0.42 (HOLD), HOLD has the lower expected cost, so the decision is "
        "HOLD."
    )


def test_a_scenario_calculation_compares_expected_costs() -> None:
    assert scenario_calculation(BY_NAME["insurance"], CostPair(1, 10), BELIEF) == (
        "If the event does not occur, BUY PROTECTION leaves me 100 worse off, so its expected cost is 0.58 x 100 = 58. "
        "If the event occurs, GO UNINSURED leaves me 1,000 worse off, so its expected cost is 0.42 x 1,000 = 420. "
        "Comparing 58 (BUY PROTECTION) with 420 (GO UNINSURED), BUY PROTECTION has the lower expected cost, so the "
        "decision is BUY PROTECTION."
    )


@pytest.mark.parametrize("framing", FRAMINGS, ids=lambda framing: framing.name)
def test_a_tie_acts_and_says_so(framing: Framing) -> None:
    for calculation in (complete_calculation, scenario_calculation):
        text = calculation(framing, CostPair(1, 1), Decimal("0.5"))
        act = framing.act_word
        assert text.endswith(f"the two are equal, and a tie goes to {act}, so the decision is {act}.")


def test_certain_beliefs_have_no_negative_zero() -> None:
    assert "0 x (-110) = 0. Comparing -100 (INTERVENE) with 0 (HOLD)" in complete_calculation(
        BY_NAME["intervention"], CostPair(10, 1), Decimal(0)
    )
    assert "0 x 10 + 1 x (-100) = 0 - 100 = -100. DECLINE" in complete_calculation(
        BY_NAME["betting"], CostPair(10, 1), Decimal(0)
    )
    assert "1 x 1,000 + 0 x (-100) = 1,000 - 0 = 1,000. DECLINE" in complete_calculation(
        BY_NAME["betting"], CostPair(1, 10), Decimal(1)
    )


CONDITIONS = {
    "A": "what a false negative costs (1,000) but not what a false positive costs",
    "B": "what a false positive costs (100) but not what a false negative costs",
    "C": "neither what a false positive costs nor what a false negative costs",
    "D": "both what a false positive costs (100) and what a false negative costs (1,000)",
}


@pytest.mark.parametrize(("condition", "stated"), CONDITIONS.items())
def test_the_condition_sentence(condition: str, stated: str) -> None:
    sentence = f"The scenario states {stated}, so Choice {condition} applies."
    assert condition_sentence(BY_NAME["intervention"], CostPair(1, 10), condition) == sentence


@pytest.mark.parametrize("condition", "ABCD")
@pytest.mark.parametrize("costs", COST_PAIRS, ids=lambda costs: costs.name)
@pytest.mark.parametrize("framing", FRAMINGS, ids=lambda framing: framing.name)
def test_the_condition_sentence_gives_the_costs_that_the_prompt_states(
    framing: Framing, costs: CostPair, condition: str
) -> None:
    case = {"setup": "You judge.", "evidence": "Some evidence.", "event": "it rains"}
    stated = stated_costs(decidability_prompt(case, framing, costs, condition, "cot"))
    sentence = condition_sentence(framing, costs, condition)
    named = [re.search(rf"what a false {error} costs \(([\d,]+)\)", sentence) for error in ("positive", "negative")]
    assert [match and float(match[1].replace(",", "")) for match in named] == list(stated)


@pytest.mark.parametrize(
    ("beliefs", "printed"),
    [
        ([0.42, 0.42, 0.42], "0.42"),
        ([0.3, 0.3, 0.4], "0.333"),
        ([0.0, 0.0, 0.0], "0"),
        ([1.0, 1.0, 1.0, 1.0], "1"),
        ([0.1, 0.2, 0.3], "0.2"),
        ([0.4, 0.5, 0.6, 0.7], "0.55"),
        ([0.001, 0.002, 0.001, 0.002], "0.002"),  # 0.0015, half to even
        ([0.0025, 0.0025, 0.0025], "0.002"),
        ([1e-300, 0.0, 0.3], "0.1"),
        ([0.9999, 0.9999, 0.9999], "1"),
    ],
)
def test_a_belief_is_printed_with_at_most_three_decimals(beliefs: list[float], printed: str) -> None:
    belief = printed_belief(beliefs)
    assert str(belief) == printed
    assert belief_sentence(belief) == f"My probability that the event occurs is {printed}."


# --- The numbers, read back -------------------------------------------------------------------------------------------

NUMBER = r"\(?(-?[\d,]+(?:\.\d+)?)\)?"
PRODUCT = re.compile(rf"(\d[\d.]*) x {NUMBER}")
RESULT = re.compile(r"expected (?:value|cost|reward) is (?:[^=]*? = )*?(-?[\d,]+(?:\.\d+)?)\.(?= |$)")
COMPARING = re.compile(r"Comparing (-?[\d,.]*\d) \(([A-Z ]+)\) with (-?[\d,.]*\d) \(([A-Z ]+)\), ")


def read(text: str) -> Decimal:
    return Decimal(text.replace(",", ""))


def expectation(framing: Framing, costs: CostPair, p: Decimal, scenario: bool) -> tuple[Decimal, Decimal, bool]:
    """(act, hold, is a cost): the expected amounts from the definition of each framing class, by other means."""
    g, q = Decimal(100), 1 - p
    ratio = Decimal(costs.fn) / Decimal(costs.fp)
    least = min(costs.fp, costs.fn)
    units = Decimal(costs.fp) / least, Decimal(costs.fn) / least
    if scenario:
        fp, fn = units if framing.framing_class == "ratio" else (g, g * ratio)
        return q * fp, p * fn, True
    return {
        "protective": (-g, -p * g * (1 + ratio), False),
        "hedge": (p * g * ratio - q * g, Decimal(0), False),
        "payoff": (p * g * (1 + ratio), g, False),
        "ratio": (q * units[0], p * units[1], True)
        if framing.name == "lossratio"
        else (p * units[1], q * units[0], False),
    }[framing.framing_class]


@given(
    st.integers(0, 1000).map(lambda k: printed_belief([k / 1000])),
    st.sampled_from(FRAMINGS),
    st.sampled_from(COST_PAIRS),
    st.booleans(),
)
def test_every_number_of_a_calculation_is_right_and_the_decision_is_the_rules(
    belief: Decimal, framing: Framing, costs: CostPair, scenario: bool
) -> None:
    text = (scenario_calculation if scenario else complete_calculation)(framing, costs, belief)
    act, hold, is_cost = expectation(framing, costs, belief, scenario)
    assert [read(value) for value in RESULT.findall(text)] == [act, hold]
    comparing = COMPARING.search(text)
    assert comparing
    assert (read(comparing[1]), comparing[2]) == (act, framing.act_word)
    assert (read(comparing[3]), comparing[4]) == (hold, framing.hold_word)
    for sentence in text.split(". "):
        if products := PRODUCT.findall(sentence):
            assert {Decimal(chance) for chance, _ in products} <= {belief, 1 - belief}
            total = sum(Decimal(chance) * read(amount) for chance, amount in products)
            assert read(sentence.rpartition(" = ")[2].rstrip(".")) == total
    decision = framing.act_word if acts(float(belief), costs.fp, costs.fn) else framing.hold_word
    assert text.endswith(f"so the decision is {decision}.")
    better = act <= hold if is_cost else act >= hold
    assert (decision == framing.act_word) == better
    assert not re.search(r"-0(?![.\d])|\d[eE]|\d\.\d{4,}", text)
