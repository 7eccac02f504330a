"""The construction check: what a prompt says, read back from its text alone, against what its row claims.

The costs are found by what they mean: who pays what for which action if which clause holds. Every number that the
problem prints must be one of the two costs, so that no threshold, odds or probability can stand there::

    stated_costs("... If you choose ISSUE WARNING and no significant ... today, you pay a cost of 3. ...")
    ->  {("ISSUE WARNING", "no significant or severe hail occurs in the area today"): 3, ...}
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from builders.construction import ConstructionError, answer_words
from builders.posterior.task import Task
from evaluate_metrics.coherence.rule import p_star

_COST = re.compile(r"If you choose ([A-Z ]+) and ([^,\n]+), you pay a cost of (\d+)\.")
_NUMBER = re.compile(r"\d+(?:[.,/]\d+)*%?")
_ASKS = re.compile(r"\n\nQuestion: What is the probability that ([^?\n]+)\?\n\n")
_SCORE = "1 - (p - y)^2"
_PROBABILITY_BLOCK = "\n<final>\nProbability: <a single number between 0 and 1>\n</final>"


def check_row(task: Task, evidence: str, row: Mapping[str, Any]) -> None:
    """Compares a row with the text of its prompt.

    Raises:
        ConstructionError: they differ; the message begins with the item id.
    """
    try:
        if not 0 < row["posterior"] < 1:
            raise ConstructionError(f"a posterior of {row['posterior']}")
        before, found, after = row["prompt"].partition(evidence)
        if bool(found) == (row["format"] == "two_turn"):
            raise ConstructionError("the evidence must be in the first turn, and in no other")
        if row["format"] == "belief":
            _check_belief(task, after)
        else:
            _check_decision(task, after or before, row)
    except ConstructionError as error:
        raise ConstructionError(f"{row['item_id']}: {error}") from None


def stated_costs(problem: str) -> dict[tuple[str, str], int]:
    """(action, clause under which it costs something) -> the cost, for every cost that the text states."""
    return {(match[1], match[2]): int(match[3]) for match in _COST.finditer(problem)}


def _check_belief(task: Task, text: str) -> None:
    asked = _ASKS.match(text)
    if not asked or asked[1] != task.event or _SCORE not in text or not text.endswith(_PROBABILITY_BLOCK):
        raise ConstructionError(f"a belief prompt must ask for the event's probability under its score: {text}")
    if stated_costs(text) or "Decision:" in text or task.act_word in text or task.hold_word in text:
        raise ConstructionError("a belief prompt must name no action and no cost")


def _check_decision(task: Task, text: str, row: Mapping[str, Any]) -> None:
    costs = {(row["act_word"], task.no_event): row["cost_fp"], (row["hold_word"], task.event): row["cost_fn"]}
    if (stated := stated_costs(text)) != costs:
        raise ConstructionError(f"the text states the costs {stated}, the row has {costs}")
    if (words := answer_words(text)) != (row["act_word"], row["hold_word"]):
        raise ConstructionError(f"the answer block offers {words}")
    if (numbers := _NUMBER.findall(text)) != [str(row["cost_fp"]), str(row["cost_fn"])]:
        raise ConstructionError(f"the problem prints the numbers {', '.join(numbers)}, its costs alone are due")
    if row["threshold"] != p_star(row["cost_fp"], row["cost_fn"]) or "threshold" in text.lower():
        raise ConstructionError(f"a threshold of {row['threshold']}, or one that is named")
    if (row["format"] == "two_turn") != (f"You have just given a probability that {task.event}." in text):
        raise ConstructionError("the second turn, and no other, must name the probability just given")
