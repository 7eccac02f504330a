"""How far the parts of a long work are: one line each, read from what lies on disk, so that it is true after any kill.

adapters  qwen3.5-4b-complete-cot-full-hedge  running  step 400 of 787
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Progress = Literal["waiting", "partial", "running", "failed", "done"]
"""Not begun; begun and stopped, to be gone on with; at work now on this machine; ended with an error; complete."""


@dataclass(frozen=True)
class State:
    """One part of the work: its stage, its name, how far it is, and a word on that."""

    stage: str
    name: str
    progress: Progress
    detail: str = ""


def state_table(states: Sequence[State]) -> str:
    """The states as aligned lines, and last how many are how far."""
    widths = [max((len(getattr(state, name)) for state in states), default=0) for name in ("stage", "name", "progress")]
    lines = []
    for state in states:
        cells = (state.stage, state.name, state.progress)
        padded = "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
        lines.append(f"{padded}  {state.detail}".rstrip())
    counts = Counter(state.progress for state in states)
    return "\n".join([*lines, ", ".join(f"{count} {progress}" for progress, count in counts.items())])
