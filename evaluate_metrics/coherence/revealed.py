"""The belief that decisions reveal: where a row of thresholds flips the action from act to hold (P2, synthetic task).

Under one belief an agent acts up to a threshold and holds beyond it. Its nine decisions then have a single switch, and
the belief lies between the two thresholds around it. That such decisions say as much as a report is the equivalence,
cited by P2, of proper scoring rules and threshold losses: every proper score of a belief in a binary event is a mixture
of the losses with costs t and 1 - t of the threshold t (Gneiting and Raftery, 2007), the quadratic score the even one.
So belief loss in those costs, averaged evenly over the thresholds, is half the squared error of the belief.

Acting at 0.1 to 0.3 and holding from 0.4 on, then never acting, then acting at 0.1 and 0.3 but not at 0.2:

>>> revealed_beliefs([[1, 1, 1, 0, 0, 0, 0, 0, 0], [0] * 9, [1, 0, 1, 0, 0, 0, 0, 0, 0]]).round(3).tolist()
[0.35, 0.05, nan]

A revealed belief is the middle of an interval 0.1 wide: even an agent that decides by what it reports is up to 0.05
away from its report, 0.025 on average over evenly spread beliefs.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

LOSSES = tuple(range(1, 10))
"""P2's nine losses by their cost_fp, whose sum with cost_fn is `COST_SUM`: thresholds 0.1 to 0.9."""

COST_SUM = 10


def single_switch(profiles: ArrayLike) -> NDArray[np.bool_]:
    """(profiles,) whether the actions of each row switch at most once, and from act to hold.

    profiles: (profiles, thresholds), 1 act or 0 hold, in the order of rising thresholds. A row of one action has its
    switch before the first threshold or behind the last. A row with an action that was not read (NaN) has none.
    """
    actions = _actions(profiles)
    # A comparison with NaN is False, so that a gap is no descent.
    descending = np.all(actions[:, 1:] <= actions[:, :-1], axis=1)
    return np.asarray(descending & ~np.isnan(actions).any(axis=1), dtype=np.bool_)


def revealed_beliefs(profiles: ArrayLike, thresholds: Sequence[float] | None = None) -> NDArray[np.float64]:
    """(profiles,) the middle of the interval that the switch leaves for the belief, NaN without a single switch.

    profiles: as in `single_switch`; thresholds: rising and in (0, 1), by default 0.1 to 0.9. The interval of a row that
    only holds begins at 0, that of a row that only acts ends at 1. Raises ValueError when the thresholds do not rise,
    leave (0, 1), or are not one for each action.
    """
    actions = _actions(profiles)
    inner = [loss / COST_SUM for loss in LOSSES] if thresholds is None else list(thresholds)
    bounds = np.array([0.0, *inner, 1.0])
    if len(inner) != actions.shape[1] or not np.all(np.diff(bounds) > 0):
        raise ValueError(f"{actions.shape[1]} rising thresholds in (0, 1) are needed, got {inner}")
    single = single_switch(actions)
    acted = np.where(single, np.nansum(actions, axis=1), 0).astype(np.intp)
    return np.where(single, (bounds[acted] + bounds[acted + 1]) / 2, np.nan)


def _actions(profiles: Any) -> NDArray[np.float64]:
    actions = np.asarray(profiles, dtype=np.float64)
    if actions.ndim != 2 or not np.all((actions == 0) | (actions == 1) | np.isnan(actions)):
        raise ValueError("profiles must be rows of actions, each 1 (act), 0 (hold) or None")
    return actions
