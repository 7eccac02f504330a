"""Traces of models as they come: what is left of them as prose, and where their probability is set."""

import contextlib
import time
from decimal import Decimal

import pytest

from builders.traces import UnusableTrace, set_probability, usable_prose
from evaluate_metrics.coherence.parsing import elicitation_fields, parse

BLOCK = "<final>\nProbability: 0.3\n</final>"


def prose_of(text: str) -> str:
    reading = parse(text, elicitation_fields(), "stop")["probability"]
    assert reading.value == 0.3 and reading.span
    return usable_prose(text, reading.span)


@pytest.mark.parametrize(
    ("text", "prose"),
    [
        (f"The case is weak.\n\n{BLOCK}", "The case is weak."),
        (f"  \nThe case is weak.  \n\n\n{BLOCK}\n", "The case is weak."),
        (f"One.\r\n\r\nTwo.\r\n{BLOCK}", "One.\n\nTwo."),
        (f"The case is weak.\n\n```\n{BLOCK}\n```", "The case is weak."),
        (f"The case is weak.\n\n```text\n{BLOCK}\n```\nDone.", "The case is weak."),
        (f"```\nThe case is weak.\n\n{BLOCK}\n```", "The case is weak."),
        (f"Code:\n```\nx = 1\n```\nWeak.\n{BLOCK}", "Code:\n```\nx = 1\n```\nWeak."),
        (f"Code:\n```\nx = 1\n```\n{BLOCK}", "Code:\n```\nx = 1\n```"),
        (f"Weak.\n\n**Final answer:**\n\n{BLOCK}", "Weak."),
        (f"Weak.\n\n---\n\n### Final Answer\n{BLOCK}", "Weak."),
        ("Weak.\n\n**<final>**\nProbability: 0.3\n**</final>**", "Weak."),
        ("Weak. <FINAL>\nProbability: 0.3\n</FINAL>", "Weak."),
        (f"<think>\nHm, 0.9?\n</think>\n\nWeak.\n{BLOCK}", "Weak."),
        (f"Hm, 0.9?\n</think>\n\nWeak.\n{BLOCK}", "Weak."),
        (f"Weak.\n{BLOCK}\nI hope that this helps.", "Weak."),
        ("Weak.\n<final>\nProbability: 0.3", "Weak."),
        ("Weak.\nProbability: 0.3", "Weak."),
        (f"Probability: 0.3\n\n{BLOCK}", "Probability: 0.3"),
    ],
)
def test_the_prose_is_what_stands_before_the_answer(text: str, prose: str) -> None:
    assert prose_of(text) == prose


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (BLOCK, "no prose"),
        (f"100%\n\n{BLOCK}", "no prose"),
        (f"<think>All of it.</think>\n{BLOCK}", "no prose"),
        (f"<final>\nProbability: 0.9\n</final>\nNo, wait.\n{BLOCK}", "<final> tag"),
        (f"I will use a <final> block.\n{BLOCK}", "<final> tag"),
        (f"It says <think> in a sentence.\n{BLOCK}", "reasoning tag"),
        (f"<think>One.</think>\nTwo.\n<thinking>Three.</thinking>\n{BLOCK}", "reasoning tag"),
        (f"Weak.<|im_end|>\n<|im_start|>user\n{BLOCK}", "chat template"),
        (f"Weak.</s>\n{BLOCK}", "chat template"),
        (f"Weak.<end_of_turn>\n{BLOCK}", "chat template"),
        (f"Look:\n```\nx = 1\nso it is weak.\n{BLOCK}", "code fence"),
    ],
)
def test_a_trace_that_cannot_stand_in_a_target_is_refused_with_a_reason(text: str, reason: str) -> None:
    with pytest.raises(UnusableTrace, match=reason):
        prose_of(text)


SET = [
    # trace, its reading, the trace with 0.284 set, numerals set
    ("The probability is 0.3.", "0.3", "The probability is 0.284.", 1),
    ("The probability is 0.30, so low.", "0.3", "The probability is 0.284, so low.", 1),
    ("I estimate a 30% chance.", "0.3", "I estimate a 28.4% chance.", 1),
    ("The likelihood is 30 percent.", "0.3", "The likelihood is 28.4 percent.", 1),
    ("The chance is 0.3 (30%).", "0.3", "The chance is 0.284 (28.4%).", 2),
    ("My estimate: **0.3**", "0.3", "My estimate: **0.284**", 1),
    ("- 30% probability", "0.3", "- 28.4% probability", 1),
    ("Probability: 0.3", "0.3", "Probability: 0.284", 1),
    ("**Probability:** 0.9", "0.3", "**Probability:** 0.284", 1),
    ("Probability = 0.7976541231", "0.797", "Probability = 0.284", 1),
    ("Probability: 0.98125 (98.125%)", "0.981", "Probability: 0.284 (28.4%)", 2),
    ("The probability is .3", "0.3", "The probability is 0.284", 1),
    ("It is likely. The probability is 1.", "1", "It is likely. The probability is 0.284.", 1),
    ("The probability is 100%.", "1", "The probability is 28.4%.", 1),
    ("The base rate is 0.3.\nThe probability is 0.3.", "0.3", "The base rate is 0.3.\nThe probability is 0.284.", 1),
    # not the reading, or not a statement of it
    ("The probability is 0.4.", "0.3", "The probability is 0.4.", 0),
    ("The load is 0.3 and the risk is high.", "0.3", "The load is 0.3 and the risk is high.", 0),
    ("A scholarship costs 30%. The chance is small.", "0.3", "A scholarship costs 30%. The chance is small.", 0),
    ("The probability is 0.30012.", "0.3", "The probability is 0.30012.", 0),
    ("The probability is 10.3.", "0.3", "The probability is 10.3.", 0),
    ("The probability is between 0.3 and 0.5.", "0.3", "The probability is between 0.3 and 0.5.", 0),
    ("The probability is between 0.1 and 0.3.", "0.3", "The probability is between 0.1 and 0.3.", 0),
    ("The probability is 0.3-0.5.", "0.3", "The probability is 0.3-0.5.", 0),
    ("The probability is 20% to 30%.", "0.3", "The probability is 20% to 30%.", 0),
    ("The probability is 0.5 * 0.3.", "0.3", "The probability is 0.5 * 0.3.", 0),
    ("The probability is 1 in 127.", "1", "The probability is 1 in 127.", 0),
    ("The probability is 1 - (1 - 0.65).", "1", "The probability is 1 - (1 - 0.65).", 0),
    ("The probability is 1/1424.", "1", "The probability is 1/1424.", 0),
    ("1. First, the probability of an outage.", "1", "1. First, the probability of an outage.", 0),
    ("The probability needs 1 more factor.", "1", "The probability needs 1 more factor.", 0),
    ("", "0.3", "", 0),
]  # fmt: skip


@pytest.mark.parametrize(("prose", "reading", "expected", "count"), SET, ids=[each[0] for each in SET])
def test_where_the_probability_is_set(prose: str, reading: str, expected: str, count: int) -> None:
    assert set_probability(prose, Decimal(reading), Decimal("0.284")) == (expected, count)


def test_a_percentage_of_one_and_of_nothing() -> None:
    assert set_probability("A 30% chance.", Decimal("0.3"), Decimal(1)) == ("A 100% chance.", 1)
    assert set_probability("A 30% chance.", Decimal("0.3"), Decimal(0)) == ("A 0% chance.", 1)


PIECES = [
    "the chance is 0.3 ",
    "0.3",
    "```\n",
    "---\n",
    "<think>",
    "</think>",
    "- ",
    "**",
    "probability",
    "\n \t",
    "((",
]


@pytest.mark.parametrize("piece", PIECES)
def test_a_million_characters_take_no_more_than_seconds(piece: str) -> None:
    text = "A case.\n" + piece * (1_000_000 // len(piece))
    start = time.perf_counter()
    with contextlib.suppress(UnusableTrace):
        prose = usable_prose(f"{text}\n{BLOCK}", (len(text) + 22, len(text) + 25))
        assert prose.startswith("A case.")
    set_probability(text, Decimal("0.3"), Decimal("0.2"))
    assert time.perf_counter() - start < 10
