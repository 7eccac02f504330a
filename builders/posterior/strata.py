"""Spreading instances over their posteriors: as many in each tenth of [0, 1], the splits alike in every tenth.

A tenth hands the evidence that falls into it to the splits in turns, 15 : 3 : 10, so that no evidence is in two splits,
and a tenth with too little of it still serves all three.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from itertools import chain, cycle, islice, zip_longest
from math import gcd
from typing import TypeVar

from builders.posterior.instance import SIZES

T = TypeVar("T")

TENTHS = 10


def tenth(posterior: float) -> int:
    """Which tenth of [0, 1] a posterior is in, from 0; 1 is in the last."""
    return min(int(posterior * TENTHS), TENTHS - 1)


def turns() -> list[str]:
    """Splits in the order in which a tenth serves them once around, each as often as its size demands, well mixed."""
    unit = gcd(*SIZES.values())
    wanted = {split: size // unit for split, size in SIZES.items()}
    around = sum(wanted.values())
    places = [((number + 0.5) * around / each, split) for split, each in wanted.items() for number in range(each)]
    return [split for _, split in sorted(places)]


def spread(candidates: Iterable[tuple[float, Hashable, T]]) -> Iterator[tuple[str, T]]:
    """(split, candidate) of the first candidates of each tenth until its quota is full.

    Candidates come as (posterior, evidence, candidate) in order of preference. Of several with the same evidence the
    second is taken when all evidence of the split has been taken once, and so on.
    """
    tenths: list[dict[Hashable, list[T]]] = [{} for _ in range(TENTHS)]
    for posterior, evidence, candidate in candidates:
        tenths[tenth(posterior)].setdefault(evidence, []).append(candidate)
    return chain.from_iterable(_served(groups) for groups in tenths)


def _served(groups: Mapping[Hashable, list[T]]) -> Iterator[tuple[str, T]]:
    for split, size in SIZES.items():
        mine = [group for group, turn in zip(groups.values(), cycle(turns()), strict=False) if turn == split]
        rounds = chain.from_iterable(zip_longest(*mine))
        for candidate in islice((each for each in rounds if each is not None), size // TENTHS):
            yield split, candidate
