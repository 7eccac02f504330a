"""What a chat completion says, and what many of them cost.

The part of a completion that is read; a refused or filtered answer is an answer, what is no completion is a fault::

    {"model": "gpt-4o-mini-2024-07-18", "choices": [{"message": {"content": "<final>\\nProbability: 0.35 ..."},
     "finish_reason": "stop"}], "usage": {"prompt_tokens": 412, "completion_tokens": 23}}
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from inference.endpoint import FaultError, complaint, parse_json, plain
from inference.requests import Completion

UNKNOWN = "unknown"
"""The finish reason of an answer that gives none: that it was complete is not assumed."""
LIMIT = 2**31
"""Token counts from here on are no counts; the outputs' columns could not hold them."""

_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class Answer:
    """One answer; ``model`` is the name that it came under, "" if untold, ``replaced`` whether characters were."""

    text: str
    finish_reason: str
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    model: str = ""
    replaced: bool = False


FILTERED = Answer("", "content_filter")
"""The answer to a prompt that a filter stopped before any model read it."""


def read_answer(body: bytes) -> Answer:
    """The answer in a response body. Lone surrogates, which no file could hold, become U+FFFD.

    Raises:
        FaultError: the body is no chat completion, has no choice, or reports an error of its own.
    """
    try:
        content = parse_json(body)
    except ValueError:
        raise FaultError("malformed", f"the body is no JSON: {body.decode(errors='replace')}") from None
    choices = content.get("choices") if isinstance(content, dict) else None
    if choices == []:
        raise FaultError("empty choice", "the answer has no choice")
    choice = choices[0] if isinstance(choices, list) and isinstance(choices[0], dict) else {}
    message = choice.get("message")
    if not isinstance(message, dict) or not isinstance(message.get("content"), str | None):
        raise FaultError("malformed", f"the body is no chat completion: {complaint(body)[0]}")
    if choice.get("finish_reason") == "error":
        raise FaultError("broken off", f"the answer was broken off: {plain(choice.get('error') or 'no reason given')}")
    raw, reason = _said(message, choice.get("finish_reason"))
    text = _SURROGATE.sub("\ufffd", raw)
    usage = content.get("usage")
    usage = usage if isinstance(usage, dict) else {}
    model = content.get("model")
    return Answer(
        text,
        reason,
        _count(usage.get("prompt_tokens")),
        _count(usage.get("completion_tokens")),
        model if isinstance(model, str) else "",
        text != raw,
    )


def _said(message: Mapping[str, Any], reason: Any) -> tuple[str, str]:
    """(text, finish reason) of a message; a refusal's words are its text."""
    reason = reason if isinstance(reason, str) else ""
    refusal = message.get("refusal")
    if isinstance(refusal, str) and refusal and not message["content"]:
        return refusal, "content_filter" if reason == "content_filter" else "refusal"
    return message["content"] or "", reason or UNKNOWN


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < LIMIT else None


@dataclass
class Tally:
    """What the answers of a run cost; the prices are USD per million tokens of prompts and of answers."""

    prices: tuple[float, float] | None = None
    answers: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    notes: Counter[str] = field(default_factory=Counter)

    def add(self, completion: Completion) -> None:
        """Counts one answer."""
        self.answers += 1
        self.prompt_tokens += completion.prompt_tokens or 0
        self.completion_tokens += completion.completion_tokens or 0
        if completion.prompt_tokens is None or completion.completion_tokens is None:
            self.notes["without token counts"] += 1
        if completion.finish_reason in ("content_filter", "refusal"):
            self.notes["refused or filtered"] += 1
        elif not completion.text:
            self.notes["empty"] += 1

    def summary(self, retried: Mapping[str, int]) -> str:
        """One line, e.g. ``160 answers; 12,345 prompt + 6,789 completion tokens; retried 429 × 3; 2 empty``."""
        tokens = f"{self.prompt_tokens:,} prompt + {self.completion_tokens:,} completion tokens"
        if self.prices is not None:
            cost = (self.prompt_tokens * self.prices[0] + self.completion_tokens * self.prices[1]) / 1e6
            tokens += f" ({cost:,.4f} USD)"
        parts = [f"{self.answers:,} answer{'' if self.answers == 1 else 's'}", tokens]
        if retried:
            parts.append("retried " + ", ".join(f"{kind} × {count:,}" for kind, count in retried.items()))
        return "; ".join([*parts, *(f"{count:,} {what}" for what, count in self.notes.items())])
