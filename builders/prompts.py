"""One prompt of each task (P1 §B.2-B.4): role, evidence, decision problem, instruction and answer block.

The elicitation prompt of one case in the Direct style::

    You are an academic advisor reviewing a university student’s record to gauge their risk of dropping out.

    Case context:
    A 19-year-old student entered with an admission grade of 126.1 out of 200 ...

    Question: What is the probability that the student drops out before completing their degree?

    Output ONLY the final answer block below and NOTHING ELSE. ...
    <final>
    Probability: <a single number between 0 and 1>
    </final>
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from builders.framings import Framing
from builders.styles import INSTRUCTIONS, Style
from builders.utilities import CostPair

_PROBABILITY = "Probability: <a single number between 0 and 1>"

_INFORMATION_QUESTION = """\
Question: What is the probability that {event}, and is there enough information to choose between the options?

A) Not enough information about false positives (acting when the event does not occur).
B) Not enough information about false negatives (not acting when the event occurs).
C) Not enough information about either false positives or false negatives.
D) Enough information is given. Choose D and provide the better decision."""


def elicitation_prompt(case: Mapping[str, Any], style: Style) -> str:
    """The evidence and the event, no action and no payoff (§B.2); the style is direct or cot."""
    question = f"Question: What is the probability that {case['event']}?"
    return _assemble(case, question, INSTRUCTIONS["elicitation"][style], _PROBABILITY)


def complete_prompt(case: Mapping[str, Any], framing: Framing, costs: CostPair, style: Style) -> str:
    """The decision with both error costs stated in the framing's own terms (§B.3)."""
    decision = f"Decision: <{framing.act_word} or {framing.hold_word}>"
    problem = framing.complete(case["event"], costs)
    return _assemble(case, problem, INSTRUCTIONS["complete"][style], _PROBABILITY, decision)


def decidability_prompt(
    case: Mapping[str, Any], framing: Framing, costs: CostPair, condition: str, style: Style
) -> str:
    """The scenario under one condition and the four-way information question (§B.4)."""
    question = _INFORMATION_QUESTION.format(event=case["event"])
    problem = f"{framing.scenario(case['event'], costs, condition)}\n\n{question}"
    choice = "Choice: <A, B, C, or D>"
    decision = f"Decision: <{framing.act_word} or {framing.hold_word} if Choice D; N/A otherwise>"
    return _assemble(case, problem, INSTRUCTIONS["decidability"][style], _PROBABILITY, choice, decision)


def _assemble(case: Mapping[str, Any], problem: str, instruction: str, *answer_lines: str) -> str:
    block = "\n".join(("<final>", *answer_lines, "</final>"))
    return f"{case['setup']}\n\nCase context:\n{case['evidence']}\n\n{problem}\n\n{instruction}\n{block}"
