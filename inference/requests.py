"""What an engine is asked and what it answers: one request per prompt row, one completion per request.

A request carries everything that its answer may depend on, and its seed comes from its item id alone, so that an item
gets the same text whatever else runs beside it (P1 Appendix A, Decoding)::

    Request("student_dropout-07.elicitation.direct.r3", "You are an academic advisor ...", seed=1398012843)
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from dataclasses import dataclass
from typing import Protocol
from zlib import crc32

from builders.chat import chat_messages


@dataclass(frozen=True)
class Sampling:
    """How tokens are drawn, the same for all requests of a run; P1's values by default."""

    temperature: float = 0.7
    top_p: float = 0.95
    max_tokens: int = 128
    base_seed: int = 124


@dataclass(frozen=True)
class Request:
    """One prompt to answer; ``grammar`` is the GBNF grammar that a guided answer must follow.

    ``turns`` are the earlier turns of the conversation that the prompt goes on with, user's and assistant's in turn.
    """

    item_id: str
    prompt: str
    seed: int
    grammar: str | None = None
    turns: tuple[str, ...] = ()

    @property
    def messages(self) -> list[dict[str, str]]:
        """The conversation up to the answer, as chat templates and endpoints take it."""
        return chat_messages(self.prompt, self.turns)


@dataclass(frozen=True)
class Completion:
    """One answer: its raw text, why it ended, and the token counts of prompt and answer (None: an endpoint hid them).

    ``finish_reason`` is ``stop``, ``length`` when the budget ended the text, or an endpoint's own word such as
    ``content_filter``: a refused answer is an answer.
    """

    item_id: str
    text: str
    finish_reason: str
    prompt_tokens: int | None
    completion_tokens: int | None


class Engine(Protocol):
    """Whatever turns requests into completions.

    ``hidden`` names what the engine does not control of ``seed``, ``temperature`` and ``top_p``: such a value is
    recorded as unknown.
    """

    name: str
    version: str
    hidden: frozenset[str]

    def generate(self, requests: Iterable[Request], sampling: Sampling) -> Generator[Completion, None, None]:
        """Yields the completion of every request once, as they finish, in any order.

        The requests are drawn as they are needed, a window ahead: a million of them never lie in memory at once.
        """
        ...

    def close(self) -> None:
        """Frees what the engine holds; it gives no answers after this."""
        ...


def request_seed(item_id: str, base_seed: int) -> int:
    """(base_seed xor crc32(item_id)) mod 2^31: independent draws for the repetitions of a prompt (DESIGN §6.8)."""
    return (base_seed ^ crc32(item_id.encode())) % 2**31
