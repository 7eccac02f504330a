"""SFT rows as token ids and labels, measured before anything is trained (P1 Appendix A, Sequence construction).

Each row is rendered once with the model's own chat template. A row longer than the cap stops the run and is named: the
trainer itself would cut it without a word. One tokenised row::

    {"input_ids": [1, 9690, 198, ...], "labels": [1, 9690, 198, ...]}        loss over the sequence
    {"input_ids": [1, 9690, 198, ...], "labels": [-100, -100, ..., 44, 2]}   loss over the completion
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from builders.chat import conversation
from builders.errors import UserError

if TYPE_CHECKING:
    from datasets import Dataset

IGNORED = -100
"""Label of a token that the loss passes over."""


def tokenize_rows(rows: Dataset, tokenizer: Any, loss: str, cap: int) -> Dataset:
    """``input_ids`` and ``labels`` of every row, in order.

    Args:
        rows: SFT rows (``item_id``, ``messages`` of one user and one assistant turn).
        tokenizer: the base model's.
        loss: ``sequence`` or ``completion``.
        cap: tokens that a row may have at most.

    Raises:
        UserError: a row exceeds the cap, has no supervised token, or is not such a conversation.
    """
    from datasets import Dataset

    columns: dict[str, list[list[int]]] = {"input_ids": [], "labels": []}
    longest = ("", 0)
    over = 0
    for row in rows:
        ids, prompt_tokens = conversation(tokenizer, *_turns(row))
        labels = [IGNORED] * prompt_tokens + ids[prompt_tokens:] if loss == "completion" else list(ids)
        # The first label is never predicted: a row of one token would train nothing.
        if all(label == IGNORED for label in labels[1:]):
            raise UserError(f"{row['item_id']}: no token of this row is supervised")
        over += len(ids) > cap
        longest = max(longest, (row["item_id"], len(ids)), key=lambda each: each[1])
        columns["input_ids"].append(ids)
        columns["labels"].append(labels)
    if over:
        raise UserError(
            f"{longest[0]}: {longest[1]:,} tokens, more than the cap of {cap:,} ({over:,} rows exceed it); nothing is "
            "cut, so raise training.sequence_cap in the recipe"
        )
    return Dataset.from_dict(columns)


def _turns(row: Any) -> tuple[str, str]:
    messages = row["messages"]
    if [message["role"] for message in messages] != ["user", "assistant"]:
        raise UserError(f"{row['item_id']}: a row has one user and one assistant turn")
    if not messages[1]["content"]:
        raise UserError(f"{row['item_id']}: the assistant's turn is empty, so no token of this row is supervised")
    return messages[0]["content"], messages[1]["content"]
