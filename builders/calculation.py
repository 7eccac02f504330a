"""The deterministic sentences of a CoT target (P1 §3.3-3.4): belief, condition, and expected values of both options.

P1 does not print them; they are ours (DESIGN §6.3). Numbers are exact: a printed belief is a decimal, an amount a whole
number. A calculation for betting, the pair (1, 10) and the belief 0.42::

    BET YES wins 1,000 (net) if the event occurs and loses the stake of 100 if it does not, so its expected value is
    0.42 x 1,000 + 0.58 x (-100) = 420 - 58 = 362. DECLINE neither wins nor loses, so its expected value is 0. Comparing
    362 (BET YES) with 0 (DECLINE), BET YES has the higher expected value, so the decision is BET YES.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import ROUND_HALF_EVEN, Decimal

from builders.framings import Framing, Option, scenario_costs
from builders.utilities import CostPair

DECIMALS = Decimal("0.001")
"""A belief is printed with at most three decimals (DESIGN §6.5)."""

SCENARIO_ACT = Option("If the event does not occur, {act} leaves me {scenario_fp} worse off", "", "scenario_fp")
SCENARIO_HOLD = Option("If the event occurs, {hold} leaves me {scenario_fn} worse off", "scenario_fn", "")
"""The two options of a decidability scenario, which states costs only (P1 §B.4)."""

_BETTER = {"value": "higher", "cost": "lower", "reward": "higher"}


def printed_belief(beliefs: Sequence[float]) -> Decimal:
    """p_E as it is printed: the exact mean, rounded half to even to three decimals, without trailing zeros."""
    mean = sum(map(exact, beliefs), Decimal(0)) / len(beliefs)
    return plain(mean.quantize(DECIMALS, ROUND_HALF_EVEN))


def exact(value: float) -> Decimal:
    """The shortest decimal that reads as this float: 0.1 is 0.1."""
    return Decimal(repr(value))


def plain(value: Decimal) -> Decimal:
    """The same number without exponent, trailing zeros or negative zero."""
    return Decimal(f"{value.normalize() + 0:f}")


def number(value: Decimal) -> str:
    """A number as prompts print it: thousands separators, no trailing zeros."""
    return f"{plain(value):,f}"


def belief_sentence(belief: Decimal) -> str:
    """The belief as prose."""
    return f"My probability that the event occurs is {belief}."


def condition_sentence(framing: Framing, costs: CostPair, condition: str) -> str:
    """Which costs a decidability scenario states, and which choice follows (P1 §3.4)."""
    fp, fn = scenario_costs(framing, costs)
    false_positive, false_negative = "what a false positive costs", "what a false negative costs"
    states = {
        "A": f"{false_negative} ({fn}) but not {false_positive}",
        "B": f"{false_positive} ({fp}) but not {false_negative}",
        "C": f"neither {false_positive} nor {false_negative}",
        "D": f"both {false_positive} ({fp}) and {false_negative} ({fn})",
    }
    return f"The scenario states {states[condition]}, so Choice {condition} applies."


def complete_calculation(framing: Framing, costs: CostPair, belief: Decimal) -> str:
    """Both options of a complete-information prompt in the framing's own payoffs (§B.3), compared, and the decision."""
    return _calculation(framing, costs, belief, framing.measure, framing.act, framing.hold)


def scenario_calculation(framing: Framing, costs: CostPair, belief: Decimal) -> str:
    """The same for a decidability scenario: the expected costs of both options from the "worse off" amounts (§B.4)."""
    return _calculation(framing, costs, belief, "cost", SCENARIO_ACT, SCENARIO_HOLD)


def amounts(framing: Framing, costs: CostPair) -> dict[str, str]:
    """Every amount that an option may name, as the prompt prints it."""
    fp, fn = scenario_costs(framing, costs)
    return {
        "certain": costs.certain,
        "contingent": costs.contingent,
        "net_gain": costs.net_gain,
        "fp_units": costs.units(costs.fp),
        "fn_units": costs.units(costs.fn),
        "scenario_fp": fp,
        "scenario_fn": fn,
    }


def _calculation(framing: Framing, costs: CostPair, belief: Decimal, measure: str, act: Option, hold: Option) -> str:
    printed = amounts(framing, costs)
    sentences, values = [], []
    for option in (act, hold):
        value, working = _expected(option, printed, belief)
        words = option.words.format(act=framing.act_word, hold=framing.hold_word, **printed)
        sentences.append(f"{words}, so its expected {measure} is {working}.")
        values.append(value)
    return " ".join((*sentences, _comparison(framing, measure, *values)))


def _expected(option: Option, printed: dict[str, str], belief: Decimal) -> tuple[Decimal, str]:
    """The expected amount of an option and how it is worked out, e.g. ``0.42 x (-1,100) = -462``."""
    if_event, if_not = (_signed(name, printed) for name in (option.if_event, option.if_not))
    if if_event == if_not:
        return if_event, number(if_event)
    weighted = [(plain(chance), amount) for chance, amount in ((belief, if_event), (1 - belief, if_not)) if amount]
    terms = [chance * amount for chance, amount in weighted]
    steps = [" + ".join(f"{number(chance)} x {_factor(amount)}" for chance, amount in weighted)]
    if len(terms) == 2:
        steps.append(f"{number(terms[0])} {'-' if weighted[1][1] < 0 else '+'} {number(abs(terms[1]))}")
    value = sum(terms, Decimal(0))
    return value, " = ".join((*steps, number(value)))


def _signed(name: str, printed: dict[str, str]) -> Decimal:
    if not name:
        return Decimal(0)
    size = Decimal(printed[name.removeprefix("-")].replace(",", ""))
    return -size if name.startswith("-") else size


def _factor(amount: Decimal) -> str:
    return f"({number(amount)})" if amount < 0 else number(amount)


def _comparison(framing: Framing, measure: str, act: Decimal, hold: Decimal) -> str:
    """The last sentence: both amounts, which is better, and the decision; a tie acts (Eq. 1)."""
    compared = f"Comparing {number(act)} ({framing.act_word}) with {number(hold)} ({framing.hold_word}), "
    if act == hold:
        return (
            f"{compared}the two are equal, and a tie goes to {framing.act_word}, so the decision is {framing.act_word}."
        )
    better = framing.act_word if (act > hold) == (_BETTER[measure] == "higher") else framing.hold_word
    return f"{compared}{better} has the {_BETTER[measure]} expected {measure}, so the decision is {better}."
