"""The nine losses (P2): cost_fp + cost_fn = 10, so that the thresholds are 0.1, 0.2, ... 0.9.

One of them is ``CostPair(fp=3, fn=7)``: acting without need costs 3, holding in need costs 7, p* >= 0.3 acts.
"""

from __future__ import annotations

from builders.errors import UserError
from builders.utilities import CostPair

TOTAL = 10

LOSSES = tuple(CostPair(fp, TOTAL - fp) for fp in range(1, TOTAL))


def read_thresholds(text: str) -> tuple[int, ...]:
    """The losses, by cost_fp, of thresholds in words.

    >>> read_thresholds("0.2,0.4,0.6,0.8")
    (2, 4, 6, 8)

    Raises:
        UserError: one is not 0.1, 0.2, ... 0.9.
    """
    try:
        scaled = [float(part) * TOTAL for part in text.split(",")]
    except ValueError:
        scaled = []
    found = [loss.fp for number in scaled for loss in LOSSES if abs(number - loss.fp) < 1e-6]
    if not found or len(found) < len(scaled):
        raise UserError(f"thresholds {text!r:.80}; give some of 0.1, 0.2, ... 0.9, as in 0.2,0.4")
    return tuple(sorted(set(found)))
