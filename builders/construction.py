"""The construction check (P1 §3.2): reads costs and threshold back from the text of a prompt, knowing no template.

The reader finds the decision problem by its place (the paragraph after the evidence) and the amounts by what they mean
in decision theory, so that a template that states the wrong amount, names the wrong action or loses a cost is caught::

    stated_threshold("... you stake 100; you win 20 (net) if the event occurs ...")  ->  100 / 120
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from builders.utilities import BASE_SCALE

TOLERANCE = 1e-9
_N = r"(\d[\d,]*(?:\.\d+)?)"

_Amounts = tuple[str, ...]


class ConstructionError(Exception):
    """A prompt does not say what its row claims; the message names the item. A fault of the build, not of the user."""


def _number(text: str) -> float:
    value = float(text.replace(",", ""))
    if not value > 0:
        raise ConstructionError(f"an amount of {text}")
    return value


def _certain_against_loss(amounts: _Amounts) -> float:
    cost, averted, loss = map(_number, amounts)
    if averted != loss:
        raise ConstructionError(f"the loss is {averted:g} in one place and {loss:g} in another")
    return cost / loss


def _stake_against_gain(amounts: _Amounts) -> float:
    stake, gain = map(_number, amounts)
    return stake / (stake + gain)


def _sure_against_contingent(amounts: _Amounts) -> float:
    sure, reward, *again = map(_number, amounts)
    if again not in ([], [sure]):
        raise ConstructionError(f"the sure amount is {sure:g} in one place and {again[0]:g} in another")
    return sure / reward


def _odds_against(amounts: _Amounts) -> float:
    """First named is the false positive (or its avoidance): R = multiplier."""
    ratio = _number(amounts[0]) if amounts else 1.0
    return ratio / (1 + ratio)


def _odds_for(amounts: _Amounts) -> float:
    return 1 / (1 + _number(amounts[0]))


_FALSE_POSITIVE = "choosing ACT when the event does not occur"
_FALSE_NEGATIVE = "choosing HOLD when the event occurs"
_TRUE_NEGATIVE = "choosing HOLD when the event does not occur"
_TRUE_POSITIVE = "choosing ACT when the event occurs"

_READERS: tuple[tuple[str, Callable[[_Amounts], float]], ...] = (
    (rf"intervention costs {_N}\..*avert a loss of {_N}\..*incur a loss of {_N}\.", _certain_against_loss),
    (rf"a premium of {_N}\..*pays out {_N}\..*full loss of {_N}\.", _certain_against_loss),
    (
        rf"If you BET YES: you stake {_N}; you win {_N} \(net\) if the event occurs.*If you DECLINE, you neither",
        _stake_against_gain,
    ),
    (
        rf"BUY the contract for a price of {_N}: it pays out {_N} \(net profit\) if the event occurs.*If you PASS, you",
        _stake_against_gain,
    ),
    (rf"a FLAT FEE of {_N} .*work on CONTINGENCY: you are paid {_N} only if", _sure_against_contingent),
    (
        rf"a firm {_N} for the asset if you CASH OUT today.*HOLD OUT for a payment of {_N} that is realized only if"
        rf".*Cashing out pays {_N} for certain",
        _sure_against_contingent,
    ),
    (rf"mistakes matters: {_FALSE_POSITIVE} is {_N} times as costly as {_FALSE_NEGATIVE}\.", _odds_against),
    (rf"mistakes matters: {_FALSE_NEGATIVE} is {_N} times as costly as {_FALSE_POSITIVE}\.", _odds_for),
    (rf"mistakes matters: {_FALSE_POSITIVE} is exactly as costly as {_FALSE_NEGATIVE}\.", _odds_against),
    (rf"rewards matters: {_TRUE_NEGATIVE} earns {_N} times as much as {_TRUE_POSITIVE}\.", _odds_against),
    (rf"rewards matters: {_TRUE_POSITIVE} earns {_N} times as much as {_TRUE_NEGATIVE}\.", _odds_for),
    (rf"rewards matters: {_TRUE_NEGATIVE} earns exactly as much as {_TRUE_POSITIVE}\.", _odds_against),
)
_COMPILED = tuple((re.compile(pattern), read) for pattern, read in _READERS)

_COST_FP = re.compile(
    rf"If the event does not occur, ([A-Z ]+) leaves you {_N} (?:[a-z]+ )*worse off than ([A-Z ]+)[ .]"
)
_COST_FN = re.compile(rf"If the event occurs, ([A-Z ]+) leaves you {_N} (?:[a-z]+ )*worse off than ([A-Z ]+)[ .]")
_ANSWER_WORDS = re.compile(r"\nDecision: <([A-Z ]+) or ([A-Z ]+)(?: if Choice D; N/A otherwise)?>\n</final>$")


def problem_of(prompt: str) -> str:
    """The paragraph that states the decision problem: the first one after the evidence.

    Raises:
        ConstructionError: no paragraph follows the evidence.
    """
    paragraphs = prompt.split("\n\n", 3)
    if len(paragraphs) < 4:
        raise ConstructionError(f"{len(paragraphs)} paragraphs, at least 4 expected")
    return paragraphs[2]


def stated_threshold(prompt: str) -> float:
    """p* recovered from the amounts of a complete-information prompt.

    Raises:
        ConstructionError: no known kind of payoff is stated, more than one is, or one amount contradicts another.
    """
    problem = problem_of(prompt)
    found = [(read, match.groups()) for pattern, read in _COMPILED if (match := pattern.search(problem))]
    if len(found) != 1:
        raise ConstructionError(f"{len(found)} payoff statements found in: {problem}")
    read, amounts = found[0]
    return read(amounts)


def stated_costs(prompt: str) -> tuple[float | None, float | None]:
    """(false-positive, false-negative cost) recovered from a decidability prompt; None where the text states none."""
    problem, (act, hold) = problem_of(prompt), answer_words(prompt)
    costs: list[float | None] = []
    for pattern, worse, better in ((_COST_FP, act, hold), (_COST_FN, hold, act)):
        match = pattern.search(problem)
        if match and (match[1], match[3]) != (worse, better):
            raise ConstructionError(f"the sentence names {match[1]} and {match[3]}, the answer block {act} and {hold}")
        costs.append(_number(match[2]) if match else None)
    return costs[0], costs[1]


def answer_words(prompt: str) -> tuple[str, str]:
    """(act, hold) words of the answer block that ends a decision prompt."""
    match = _ANSWER_WORDS.search(prompt)
    if not match:
        raise ConstructionError("the prompt does not end with an answer block that has a decision line")
    return match[1], match[2]


def check_prompt(row: Mapping[str, Any]) -> None:
    """Compares what the prompt's text says with what its row claims.

    Raises:
        ConstructionError: they differ; the message begins with the item id.
    """
    try:
        if "framing" not in row:
            _check_elicitation(row)
        elif answer_words(row["prompt"]) != (row["act_word"], row["hold_word"]):
            raise ConstructionError(f"the answer block offers {answer_words(row['prompt'])}")
        elif "condition" in row:
            _check_costs(row)
        elif abs((stated := stated_threshold(row["prompt"])) - row["p_star"]) > TOLERANCE:
            raise ConstructionError(f"the text implies p* = {stated:.6f}, the row says {row['p_star']:.6f}")
    except ConstructionError as error:
        raise ConstructionError(f"{row['item_id']}: {error}") from None


def _check_costs(row: Mapping[str, Any]) -> None:
    """The condition, every stated amount against its cost on the framing's scale (P1 §B.3-B.4), and p* under D."""
    fp, fn = stated_costs(row["prompt"])
    least = min(row["cost_fp"], row["cost_fn"])
    unit = 1 / least if row["framing_class"] == "ratio" else BASE_SCALE / row["cost_fp"]
    for stated, name in ((fp, "cost_fp"), (fn, "cost_fn")):
        if stated is not None and abs(stated - row[name] * unit) > TOLERANCE:
            raise ConstructionError(f"the text states {stated:g} for {name}, on its scale it is {row[name] * unit:g}")
    condition = {(True, True): "C", (True, False): "A", (False, True): "B"}.get((fp is None, fn is None), "D")
    if condition != row["condition"]:
        raise ConstructionError(f"the text has condition {condition}, the row says {row['condition']}")
    if fp is not None and fn is not None and abs(fp / (fp + fn) - row["p_star"]) > TOLERANCE:
        raise ConstructionError(f"the text implies p* = {fp / (fp + fn):.6f}, the row says {row['p_star']:.6f}")


def _check_elicitation(row: Mapping[str, Any]) -> None:
    problem = problem_of(row["prompt"])
    payoffs = (_COST_FP, _COST_FN, *(pattern for pattern, _ in _COMPILED))
    asks = re.fullmatch(r"Question: What is the probability that [^?\n]+\?", problem)
    if not asks or "Decision:" in row["prompt"] or any(pattern.search(row["prompt"]) for pattern in payoffs):
        raise ConstructionError(f"an elicitation must ask for the probability alone, this one asks: {problem}")
