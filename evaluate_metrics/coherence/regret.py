"""Regret and its two sources: a wrong belief, and an action that does not follow from the belief (P2 §3).

Acting costs `cost_fp` when the event does not occur, holding `cost_fn` when it does, nothing else anything. At
probability p an action costs L(a, p) = p * l(a, 1) + (1 - p) * l(a, 0). With the posterior p* and the action taken:

    total regret            R        = L(action, p*)         - L(optimal action, p*)
    belief loss             R_belief = L(implied action, p*) - L(optimal action, p*)
    optimisation residual   R_opt    = L(action, p*)         - L(implied action, p*)      R = R_belief + R_opt

the optimal action being that of `rule.acts` under p*, the implied one that under the reported belief. All three are
divided by M = max(cost_fp, cost_fn), the largest regret that a posterior can give. One decision, of a belief too low:

>>> decompose(action=0, belief=0.1, posterior=0.6, cost_fp=2, cost_fn=8)
Regrets(total=0.5, belief_loss=0.5, optimisation_residual=0.0)

An action is 1 (act) or 0 (hold), a belief a probability; None or NaN is one that could not be read. Arrays broadcast,
and scalars give floats. P2's equations have no numbers in the copy that this follows.
"""

from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .rule import TOLERANCE, acts, expected_costs

# Within twice the rule's tolerance of the threshold the two actions cost the same. Twice, so that no rounding at the
# tolerance's own edge leaves the action that the rule calls optimal with a regret.
TIE = 2 * TOLERANCE

Actions: TypeAlias = ArrayLike | None  # 1, True: act; 0, False: hold; None, NaN: not read
Beliefs: TypeAlias = ArrayLike | None  # in [0, 1]; None, NaN: not read


class Regrets(NamedTuple):
    """A decision's regret and its two parts, which add up to it; NaN where what a part needs was not read."""

    total: Any
    belief_loss: Any
    optimisation_residual: Any


def expected_loss(action: Actions, p: ArrayLike, cost_fp: ArrayLike, cost_fn: ArrayLike) -> Any:
    """L(a, p), in the unit of the costs: (1 - p) * cost_fp of acting, p * cost_fn of holding; NaN of no action.

    Raises ValueError on an action that is none, a probability outside [0, 1], and a cost that is not above 0.
    """
    taken = _read_actions(action)
    act, hold = expected_costs(p, cost_fp, cost_fn)
    return _plain(np.where(np.isnan(taken), np.nan, np.where(taken == 1, act, hold)))


def largest_regret(cost_fp: ArrayLike, cost_fn: ArrayLike) -> Any:
    """M(l) = max(cost_fp, cost_fn), in the unit of the costs.

    The two actions differ by |p * cost_fn - (1 - p) * cost_fp|, which is linear in p inside the bars, so it is largest
    at an end: cost_fp for an event that never occurs, cost_fn for one that always does.
    """
    return _plain(np.maximum(np.asarray(cost_fp, dtype=np.float64), np.asarray(cost_fn, dtype=np.float64)))


def implied_action(belief: Beliefs, cost_fp: ArrayLike, cost_fn: ArrayLike) -> Any:
    """The action that is optimal under a belief: 1.0 act (a tie acts, as in `rule.acts`), 0.0 hold, NaN of no belief.

    The optimal action is this under the posterior. Raises ValueError like `expected_loss`.
    """
    read, known = _read_beliefs(belief)
    return _plain(np.where(known, acts(read, cost_fp, cost_fn), np.nan))


def decompose(
    action: Actions,
    belief: Beliefs,
    posterior: ArrayLike,
    cost_fp: ArrayLike,
    cost_fn: ArrayLike,
    normalised: bool = True,
) -> Regrets:
    """Total regret, belief loss and optimisation residual of each decision, all of one (broadcast) shape.

    Normalised, the first two are in [0, 1] and the residual in [-1, 1], below 0 where the action is better than the one
    that the belief implies; else all are in the unit of the costs. Each part is NaN where what it needs was not read:
    the action, the belief, either. Raises ValueError like `expected_loss`.
    """
    gap = _loss_gap(posterior, cost_fp, cost_fn)
    if normalised:
        gap = gap / largest_regret(cost_fp, cost_fn)
    taken, optimal = _read_actions(action), acts(posterior, cost_fp, cost_fn)
    implied = implied_action(belief, cost_fp, cost_fn)
    # Each part is the gap times -1, 0 or 1, and the factors add up, so the parts do, to the last bit.
    factors = np.broadcast_arrays(optimal - taken, optimal - implied, implied - taken, gap)[:3]
    return Regrets(*(_plain(factor * gap + 0.0) for factor in factors))  # + 0.0: no -0.0


def belief_reward(belief: Beliefs, posterior: ArrayLike) -> Any:
    """r_B = 1 - (belief - p*)**2, in [0, 1], 1 at the posterior; 0 for a belief that was not read (P2).

    Raises ValueError on a probability outside [0, 1].
    """
    (read, known), (target, _) = _read_beliefs(belief), _read_beliefs(posterior, optional=False)
    return _plain(np.where(known, 1 - np.square(read - target), 0.0))


def decision_reward(action: Actions, posterior: ArrayLike, cost_fp: ArrayLike, cost_fn: ArrayLike) -> Any:
    """r_D = 1 - R / M, in [0, 1], 1 for an action without regret; 0 for an action that was not read (P2).

    Raises ValueError like `expected_loss`.
    """
    regret = decompose(action, None, posterior, cost_fp, cost_fn).total
    return _plain(np.where(np.isnan(regret), 0.0, 1 - regret))


def alignment_reward(action: Actions, belief: Beliefs, cost_fp: ArrayLike, cost_fn: ArrayLike) -> Any:
    """r_align = 1 - (L(action, belief) - L(implied action, belief)) / M, in [0, 1]; 0 unless both were read (P2).

    The reported belief takes the posterior's place: 1 for an action that is optimal under it, however wrong it is.
    Raises ValueError like `expected_loss`.
    """
    read, known = _read_beliefs(belief)
    reward = decision_reward(action, read, cost_fp, cost_fn)
    return _plain(np.where(known, reward, 0.0))


def _loss_gap(p: ArrayLike, cost_fp: ArrayLike, cost_fn: ArrayLike) -> NDArray[np.float64]:
    """L(hold, p) - L(act, p), exactly 0 at a tie: by how much acting is the better action, in the unit of the costs."""
    act, hold = expected_costs(p, cost_fp, cost_fn)
    gap = np.asarray(hold - act, dtype=np.float64)
    return np.where(np.abs(gap) <= TIE * np.add(cost_fp, cost_fn), 0.0, gap)


def _read_actions(action: Actions) -> NDArray[np.float64]:
    taken = np.asarray(action, dtype=np.float64)
    if not np.all((taken == 0) | (taken == 1) | np.isnan(taken)):
        raise ValueError(f"an action must be 1 (act), 0 (hold) or None, got {action!r:.80}")
    return taken


def _read_beliefs(belief: Beliefs, optional: bool = True) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """The beliefs with 0 in the place of those not read, and which were read."""
    read = np.asarray(belief, dtype=np.float64)
    known = ~np.isnan(read)
    filled = np.where(known, read, 0.0)
    if not np.all((filled >= 0) & (filled <= 1)) or not (optional or known.all()):
        raise ValueError(f"a belief must be in [0, 1], got {belief!r:.80}")
    return filled, known


def _plain(values: Any) -> Any:
    """A float for a scalar, else the array."""
    return float(values) if np.ndim(values) == 0 else values
