"""The five cost pairs (P1 §3.2) and the amounts in which a framing states them (P1 §B.3).

A pair is ``(cost_fp, cost_fn)``: what acting costs when the event does not occur, and what holding costs when it does.
Everything a prompt prints derives from the pair: ``CostPair(1, 10)`` has p* = 1/11, so an intervention costs 100 and
averts a loss of 1,100.
"""

from __future__ import annotations

from dataclasses import dataclass

from evaluate_metrics.coherence.rule import p_star

BASE_SCALE = 100
"""G of P1 §B.3: the certain quantity of every framing that states amounts."""


@dataclass(frozen=True)
class CostPair:
    """One utility: the two error costs, whole numbers."""

    fp: int
    fn: int

    @property
    def name(self) -> str:
        """The pair inside an item id, ``fp10-fn1``."""
        return f"fp{self.fp}-fn{self.fn}"

    @property
    def p_star(self) -> float:
        """The threshold belief above which acting is better (P1 Eq. 1)."""
        return p_star(self.fp, self.fn)

    @property
    def certain(self) -> str:
        """G, the cost, premium, stake, price or sure amount."""
        return amount(BASE_SCALE)

    @property
    def contingent(self) -> str:
        """G / p*, the averted loss, payout or contingent reward."""
        return amount(BASE_SCALE * (self.fp + self.fn) / self.fp)

    @property
    def net_gain(self) -> str:
        """G (1 - p*) / p*, the betting win or contract profit; also the false-negative cost on the base scale."""
        return amount(BASE_SCALE * self.fn / self.fp)

    @property
    def multiplier(self) -> str:
        """max(R, 1/R) with R = p* / (1 - p*)."""
        return amount(max(self.fp / self.fn, self.fn / self.fp))

    def units(self, cost: int) -> str:
        """A cost in normalised units, the smaller of the two being 1 (our choice: P1 prints only the case p* = 1/6)."""
        return amount(cost / min(self.fp, self.fn))


COST_PAIRS = (CostPair(10, 1), CostPair(10, 2), CostPair(1, 1), CostPair(2, 10), CostPair(1, 10))


def amount(value: float) -> str:
    """A quantity rounded to a whole number, with thousands separators."""
    return f"{value:,.0f}"
