"""P2's training examples: an instance under one of the losses, asked as the intervention wants it (P2, Interventions).

All four interventions have the same examples, one for each instance, ordering and loss, so that a schedule in epochs is
the same for all. The belief prompt names no loss: belief-only meets it once for each. One of a sequential training::

    {"item_id": "weather-0a1b2c3d.two_turn.fp3-fn7.o1", "credit": "sequential", "prompt": "You are on duty ...",
     "second": "You have just given a probability that ...", "posterior": 0.174, "cost_fp": 3, "cost_fn": 7,
     "act_word": "ISSUE WARNING", "hold_word": "NO WARNING"}
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from builders.chat import render
from builders.errors import UserError

Row = Mapping[str, Any]
Example = dict[str, Any]


def examples(rows: Iterable[Row], intervention: str, losses: Collection[int], seed: int) -> list[Example]:
    """The examples of one split, in the benchmark's order.

    ``credit`` says what an example is rewarded for: belief, decision, or sequential, which is both in turn.

    Args:
        rows: of one config and split of the benchmark with known posteriors.
        intervention: one of ``INTERVENTIONS``; separate gives a random half of the examples to each component.
        losses: only these, by cost_fp; all when empty.
        seed: of the random half.
    """
    by_id: dict[str, Row] = {}
    asked: dict[tuple[str, int, int], dict[str, Row]] = {}
    for row in rows:
        by_id[row["item_id"]] = row
        if row["format"] != "belief" and (not losses or row["cost_fp"] in losses):
            place = (row["instance_id"], row["ordering"], row["cost_fp"])
            asked.setdefault(place, {})[row["format"]] = row
    credits = _credits(intervention, len(asked), seed)
    return [
        _example(credit, by_id[each["two_turn"]["first_item_id"]], each["independent"], each["two_turn"])
        for credit, each in zip(credits, asked.values(), strict=True)
    ]


def _credits(intervention: str, count: int, seed: int) -> list[str]:
    if intervention != "separate":
        return [intervention] * count
    beliefs = set(random.Random(seed).sample(range(count), count // 2))
    return ["belief" if i in beliefs else "decision" for i in range(count)]


def _example(credit: str, belief: Row, independent: Row, second: Row) -> Example:
    row = {"belief": belief, "decision": independent, "sequential": second}[credit]
    return {
        "item_id": row["item_id"],
        "credit": credit,
        "prompt": (independent if credit == "decision" else belief)["prompt"],
        "second": second["prompt"] if credit == "sequential" else None,
        **{name: second[name] for name in ("posterior", "cost_fp", "cost_fn", "act_word", "hold_word")},
    }


def check_room(rows: Iterable[Example], tokenizer: Any, max_tokens: int, context: int) -> int:
    """The longest conversation in tokens, answers included; nothing is cut, so it must fit.

    Raises:
        UserError: names the example that does not.
    """
    longest, at = 0, ""
    for row in rows:
        tokens = len(render(tokenizer, row["prompt"])) + max_tokens
        if row["second"] is not None:
            # The answer comes from the budget's tokens; once more written as text it may have a few others.
            tokens = len(render(tokenizer, row["second"], (row["prompt"], ""))) + 2 * max_tokens
        if tokens > longest:
            longest, at = tokens, row["item_id"]
    if longest > context:
        raise UserError(
            f"{at}: prompt and answer may take {longest:,} tokens, more than the context of {context:,}; nothing is "
            "cut, so lower grpo.max_tokens in the recipe, or take a model with more room"
        )
    return longest
