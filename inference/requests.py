"""What an engine is asked and what it answers: one request per prompt row, one completion per request.

A request carries everything that its answer may depend on, and its seed comes from its item id alone, so that an item
gets the same text whatever else runs beside it (P1 Appendix A, Decoding)::

    Request("student_dropout-07.elicitation.direct.r3", "You are an academic advisor ...", seed=1398012843)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol
from zlib import crc32


@dataclass(frozen=True)
class Sampling:
    """How tokens are drawn, the same for all requests of a run; P1's values by default."""

    temperature: float = 0.7
    top_p: float = 0.95
    max_tokens: int = 128
    base_seed: int = 124


@dataclass(frozen=True)
class Request:
    """One prompt to answer; ``grammar`` is the GBNF grammar that a guided answer must follow."""

    item_id: str
    prompt: str
    seed: int
    grammar: str | None = None


@dataclass(frozen=True)
class Completion:
    """One answer: its raw text, why it ended, and the token counts of prompt and answer."""

    item_id: str
    text: str
    finish_reason: Literal["stop", "length"]
    prompt_tokens: int
    completion_tokens: int


class Engine(Protocol):
    """Whatever turns requests into completions."""

    name: str
    version: str

    def generate(self, requests: Sequence[Request], sampling: Sampling) -> Iterator[Completion]:
        """Yields the completion of every request once, as they finish, in any order."""
        ...


def request_seed(item_id: str, base_seed: int) -> int:
    """(base_seed xor crc32(item_id)) mod 2^31: independent draws for the repetitions of a prompt (DESIGN §6.8)."""
    return (base_seed ^ crc32(item_id.encode())) % 2**31
