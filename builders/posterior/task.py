"""A task of the benchmark with known posteriors: what its prompts say around the evidence.

One of the three::

    Task("weather", setup="You are a forecaster ...", event="significant or severe hail occurs in the area today", ...)
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Task:
    """Role, event and action words of one task; ``event`` and ``no_event`` are clauses, exactly one of them true."""

    name: str
    setup: str
    event: str
    no_event: str
    act_word: str
    hold_word: str
