"""An instance: one evidence, and the probability of the event that it leaves, known exactly.

One of the synthetic ones::

    Instance("synthetic-k1-p17-t1-b14", "test", 0.34, ("100 past records ...", ...), {"features": (1,), ...}, 1)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from builders.schema import SPLITS

SIZES = {"train": 300, "validation": 60, "test": 200}
"""Instances of a split, where the construction does not fix them."""


@dataclass(frozen=True)
class Instance:
    """``evidence`` has one text for each ordering, all of the same content; ``state`` is that content, structured."""

    instance_id: str
    split: str
    posterior: float
    evidence: tuple[str, ...]
    state: Mapping[str, Any]
    n_features: int | None = None


def by_split(instances: Iterable[Instance]) -> dict[str, list[Instance]]:
    """split -> its instances, in order of their ids; every split is there."""
    splits: dict[str, list[Instance]] = {split: [] for split in SPLITS}
    for instance in sorted(instances, key=lambda each: each.instance_id):
        splits[instance.split].append(instance)
    return splits
