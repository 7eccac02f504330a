"""Random draws that are the same everywhere: SHA-256 in counter mode, begun by the seed 124 and a name.

No library's random stream is involved, so neither a new version nor another machine changes an instance::

    Draws("synthetic-k1-p17-t1-b3", "ordering", 2).below(6)  ->  2
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TypeVar

from builders.cases import SEED

T = TypeVar("T")

_WORD = 1 << 64


class Draws:
    """An endless stream of draws; the same name gives the same stream."""

    def __init__(self, *name: object) -> None:
        self._name = ":".join(map(str, (SEED, *name))).encode()
        self._blocks = 0
        self._words: list[int] = []

    def _word(self) -> int:
        """The next whole number in [0, 2^64)."""
        if not self._words:
            block = hashlib.sha256(b"%s#%d" % (self._name, self._blocks)).digest()
            self._blocks += 1
            self._words = [int.from_bytes(block[start : start + 8], "big") for start in range(0, 32, 8)]
        return self._words.pop()

    def below(self, bound: int) -> int:
        """A whole number in [0, bound), each equally likely; bound is from 1 to 2^64."""
        fair = _WORD - _WORD % bound
        while (word := self._word()) >= fair:
            pass
        return word % bound

    def unit(self) -> float:
        """A number in (0, 1], in steps of 2^-53."""
        return ((self._word() >> 11) + 1) / (1 << 53)

    def choice(self, options: Sequence[T]) -> T:
        """One of the options."""
        return options[self.below(len(options))]

    def weighted(self, weights: Sequence[int]) -> int:
        """An index, each as likely as its weight, a whole number."""
        at = self.below(sum(weights))
        for index, weight in enumerate(weights):
            if at < weight:
                return index
            at -= weight
        raise AssertionError("no weight reached")

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """All items in a random order."""
        order = list(items)
        for last in range(len(order) - 1, 0, -1):
            other = self.below(last + 1)
            order[last], order[other] = order[other], order[last]
        return order
