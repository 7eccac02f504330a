"""P2's rewards of an answer, read by the published parser (DESIGN §8): always in [0, 1], 0 if it cannot be read.

    belief      r_B = 1 - (belief - p*)^2
    decision    r_D = 1 - R / M
    alignment   r_align = 1 - (L(action, belief) - L(implied action, belief)) / M, with the belief of the first turn

In TRL's form: one function for each, given all answers of a batch and the columns of their examples, None for an answer
that it does not reward. ``credit`` says which rewards an answer, ``text`` and ``finish_reason`` are the answer::

    belief(text=["<final>\\nProbability: 0.3\\n</final>"], finish_reason=["stop"], credit=["belief"], posterior=[0.4])
    ->  [0.99]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from evaluate_metrics.coherence.parsing import decision_fields, elicitation_fields, parse
from evaluate_metrics.coherence.regret import alignment_reward, belief_reward, decision_reward

Rewards = list[float | None]


def read_belief(text: str, finish_reason: str) -> float | None:
    """The probability in an answer; None if it cannot be read."""
    value = parse(text, elicitation_fields(), finish_reason)["probability"].value
    return None if value is None else float(value)


def read_action(text: str, finish_reason: str, act_word: str, hold_word: str) -> int | None:
    """1 to act, 0 to hold; None if no decision can be read."""
    word = parse(text, decision_fields(act_word, hold_word), finish_reason)["decision"].value
    return None if word is None else int(word == act_word)


def is_read(example: Mapping[str, Any]) -> bool:
    """Whether what an answer is rewarded for can be read from it."""
    answer = example["text"], example["finish_reason"]
    if example["credit"] == "belief":
        return read_belief(*answer) is not None
    return read_action(*answer, example["act_word"], example["hold_word"]) is not None


def belief(
    text: Sequence[str], finish_reason: Sequence[str], credit: Sequence[str], posterior: Sequence[float], **_: Any
) -> Rewards:
    """r_B of the answers that are rewarded for their belief."""
    answers = zip(text, finish_reason, credit, posterior, strict=True)
    return [
        float(belief_reward(read_belief(said, reason), p)) if own == "belief" else None
        for said, reason, own, p in answers
    ]


def decision(
    text: Sequence[str],
    finish_reason: Sequence[str],
    credit: Sequence[str],
    posterior: Sequence[float],
    cost_fp: Sequence[int],
    cost_fn: Sequence[int],
    act_word: Sequence[str],
    hold_word: Sequence[str],
    **_: Any,
) -> Rewards:
    """r_D of the answers that are rewarded for their decision."""
    answers = zip(text, finish_reason, act_word, hold_word, credit, posterior, cost_fp, cost_fn, strict=True)
    return [
        float(decision_reward(read_action(*answer), p, fp, fn)) if own == "decision" else None
        for *answer, own, p, fp, fn in answers
    ]


def alignment(
    text: Sequence[str],
    finish_reason: Sequence[str],
    credit: Sequence[str],
    reported: Sequence[float | None],
    cost_fp: Sequence[int],
    cost_fn: Sequence[int],
    act_word: Sequence[str],
    hold_word: Sequence[str],
    **_: Any,
) -> Rewards:
    """r_align of second turns; ``reported`` are the beliefs that the first turns gave."""
    answers = zip(text, finish_reason, act_word, hold_word, credit, reported, cost_fp, cost_fn, strict=True)
    return [
        float(alignment_reward(read_action(*answer), belief, fp, fn)) if own == "alignment" else None
        for *answer, own, belief, fp, fn in answers
    ]


REWARDS = (belief, decision, alignment)
"""In the order of the trainer's columns."""
