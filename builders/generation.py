"""How a model answers in a pipeline: the ``generation`` section of a recipe, which all stages read.

generation: {guided: true, limit: 8, max_tokens: {direct: 64, cot: 300}}
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from builders.styles import MAX_TOKENS

T = TypeVar("T")


def by_kind(settings: Mapping[str, T], task: str, style: str, default: T) -> T:
    """The setting of a ``task-style``, else of the style, else the default."""
    return settings.get(f"{task}-{style}", settings.get(style, default))


@dataclass(frozen=True)
class Generation:
    """How the base model answers: sampling as in P1 Appendix A, budgets in new tokens by style or ``task-style``.

    ``limit`` is the number of cases of the test split, evenly spaced, ``cells`` of the framing-utility items of each;
    null takes all of them. ``elicited`` limits the cases of the train and validation splits whose beliefs are elicited
    for SFT. ``context`` is the room in tokens for a prompt and its answer, by style or ``task-style``. Of the tasks
    with known posteriors ``limit`` counts instances, ``cells`` losses, ``orderings`` the orders of the evidence.
    """

    engine: str = "transformers"
    dtype: str = "auto"
    batch_size: int | None = None
    context: dict[str, int] = field(default_factory=dict)
    guided: bool = False
    styles: tuple[str, ...] = ("direct",)
    limit: int | None = None
    cells: int | None = None
    orderings: int | None = None
    elicited: dict[str, int] = field(default_factory=dict)
    temperature: float = 0.7
    top_p: float = 0.95
    seed: int = 124
    max_tokens: dict[str, int] = field(default_factory=dict)

    def budget(self, task: str, style: str) -> int:
        """New tokens that an answer of this task and style may take; P1's where the recipe sets none."""
        return by_kind(self.max_tokens, task, style, MAX_TOKENS.get(style, 0))

    def room(self, kinds: Iterable[tuple[str, str]]) -> int | None:
        """The largest context that one of these tasks and styles is to have; None if one is left to the model."""
        rooms = [by_kind(self.context, task, style, None) for task, style in kinds]
        known = [room for room in rooms if room is not None]
        return max(known) if known and len(known) == len(rooms) else None
