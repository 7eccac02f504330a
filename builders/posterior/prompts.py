"""The prompts of an instance (P2; the wording is ours, P2's appendix is not at hand).

Belief, independent decision, and decision as second turn of a conversation that began with the belief. The second turn
of a forecast, the threshold of 0.3 unnamed::

    You have just given a probability that significant or severe hail occurs in the area today. Use it for the decision
    that now follows.

    You must choose between two actions, ISSUE WARNING and NO WARNING.
    If you choose ISSUE WARNING and no significant or severe hail occurs in the area today, you pay a cost of 3.
    If you choose NO WARNING and significant or severe hail occurs in the area today, you pay a cost of 7.
    Otherwise you pay nothing. Choose the action with the lower expected cost.

    You may reason first. Then give your final answer wrapped in a single <final> block, in exactly this format:
    <final>
    Decision: <ISSUE WARNING or NO WARNING>
    </final>
"""

from __future__ import annotations

from builders.posterior.task import Task
from builders.utilities import CostPair

_INSTRUCTION = (
    "You may reason first. Then give your final answer wrapped in a single <final> block, in exactly this format:"
)
_PROBABILITY = "Probability: <a single number between 0 and 1>"

_QUESTION = """\
Question: What is the probability that {event}?

Your report is scored with the quadratic score 1 - (p - y)^2, where p is the probability that you report, and y is 1 \
if {event} and 0 if not. Your expected score is highest when you report the true probability."""

_PROBLEM = """\
You must choose between two actions, {act} and {hold}.
If you choose {act} and {no_event}, you pay a cost of {fp}.
If you choose {hold} and {event}, you pay a cost of {fn}.
Otherwise you pay nothing. Choose the action with the lower expected cost."""

_SECOND_TURN = "You have just given a probability that {event}. Use it for the decision that now follows."


def belief_prompt(task: Task, evidence: str) -> str:
    """The evidence, the event and the quadratic score; no action and no cost."""
    question = _QUESTION.format(event=task.event)
    return _assemble(task.setup, evidence, question, _answer(_PROBABILITY))


def independent_prompt(task: Task, evidence: str, costs: CostPair) -> str:
    """The evidence and the decision with both costs; no probability is asked for."""
    return _assemble(task.setup, evidence, _problem(task, costs), _answer(_decision(task)))


def second_turn(task: Task, costs: CostPair) -> str:
    """What follows the answer to the belief prompt: the same decision, without the evidence."""
    return _assemble(_SECOND_TURN.format(event=task.event), _problem(task, costs), _answer(_decision(task)))


def _problem(task: Task, costs: CostPair) -> str:
    clauses = {"event": task.event, "no_event": task.no_event}
    return _PROBLEM.format(act=task.act_word, hold=task.hold_word, fp=costs.fp, fn=costs.fn, **clauses)


def _decision(task: Task) -> str:
    return f"Decision: <{task.act_word} or {task.hold_word}>"


def _answer(line: str) -> str:
    return f"{_INSTRUCTION}\n<final>\n{line}\n</final>"


def _assemble(*paragraphs: str) -> str:
    return "\n\n".join(paragraphs)
