"""A prompt as token ids: the model's own chat template, rendered once, checked on the ids.

Two faults that are easy to make and never show in the text: a second begin-of-sequence token, and a thinking span left
open so that the model reasons where nobody reads. Both stop the run before anything is generated.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from builders.errors import UserError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

THINKING = (("<think>", "</think>"),)
"""Spans that a template may open in the generation prompt; ``enable_thinking=False`` must close them."""


def chat_messages(prompt: str, turns: Sequence[str] = ()) -> list[dict[str, str]]:
    """A user turn after the earlier turns of its conversation, user's and assistant's in turn."""
    said = [{"role": ("user", "assistant")[place % 2], "content": text} for place, text in enumerate(turns)]
    return [*said, {"role": "user", "content": prompt}]


def render(tokenizer: PreTrainedTokenizerBase, prompt: str, turns: Sequence[str] = ()) -> list[int]:
    """The ids of a user turn, after earlier turns if any, with the generation prompt, thinking off (P1 Appendix A).

    Raises:
        UserError: the tokenizer has no chat template, or the rendered ids fail a check.
    """
    if not tokenizer.chat_template:
        raise UserError(f"{tokenizer.name_or_path}: no chat template; this is not an instruction-tuned model")
    ids: Any = tokenizer.apply_chat_template(
        chat_messages(prompt, turns),
        add_generation_prompt=True,
        enable_thinking=False,
        tokenize=True,
        return_dict=False,
    )
    if tokenizer.bos_token_id is not None and ids[:2] == [tokenizer.bos_token_id] * 2:
        raise UserError(f"{tokenizer.name_or_path}: the chat template gives two begin-of-sequence tokens")
    tail = str(tokenizer.decode(ids[-64:]))
    for opening, closing in THINKING:
        if tail.rfind(opening) > tail.rfind(closing):
            raise UserError(f"{tokenizer.name_or_path}: the prompt leaves {opening} open although thinking is off")
    return list(ids)


def conversation(tokenizer: PreTrainedTokenizerBase, prompt: str, answer: str) -> tuple[list[int], int]:
    """(ids, prompt tokens) of a user turn and the assistant's answer, as the model's template ends it.

    The ids begin with exactly those that ``render`` gives at inference, whatever the template makes of a thinking span,
    so that what is trained is what is served.

    Raises:
        UserError: as ``render``, or the template does not show the answer as it is.
    """
    served = render(tokenizer, prompt)
    messages = [{"role": "user", "content": prompt}, {"role": "assistant", "content": answer}]
    whole = str(tokenizer.apply_chat_template(messages, enable_thinking=False, tokenize=False))
    _, found, ending = whole.rpartition(answer)
    if not found:
        raise UserError(f"{tokenizer.name_or_path}: the chat template changes the answer it is given: {answer[:80]!r}")
    return served + tokenizer.encode(answer + ending, add_special_tokens=False), len(served)
