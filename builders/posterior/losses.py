"""The nine losses (P2): cost_fp + cost_fn = 10, so that the thresholds are 0.1, 0.2, ... 0.9.

One of them is ``CostPair(fp=3, fn=7)``: acting without need costs 3, holding in need costs 7, p* >= 0.3 acts.
"""

from __future__ import annotations

from builders.utilities import CostPair

TOTAL = 10

LOSSES = tuple(CostPair(fp, TOTAL - fp) for fp in range(1, TOTAL))
