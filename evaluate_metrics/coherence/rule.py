"""The decision rule: act when the belief reaches the threshold that the two error costs imply (P1 §3.1, Eq. 1).

Acting on a false event costs `cost_fp`, holding on a true one costs `cost_fn`; under belief p the expected costs are
(1 - p) * cost_fp and p * cost_fn, equal at p_star = cost_fp / (cost_fp + cost_fn). A tie acts.

>>> p_star(1, 4), acts(0.2, 1, 4), acts(0.19, 1, 4)
(0.2, True, False)
>>> acts([0.05, 0.5], cost_fp=[1, 10], cost_fn=[10, 1]).tolist()
[False, False]
"""

from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

# Beliefs are printed decimals and thresholds are ratios: a belief this close to the threshold is the threshold. It is
# a distance between probabilities, so that the decision is the same in whatever unit the costs are counted.
TOLERANCE = 1e-9


@overload
def p_star(cost_fp: float, cost_fn: float) -> float: ...
@overload
def p_star(cost_fp: ArrayLike, cost_fn: ArrayLike) -> Any: ...
def p_star(cost_fp: ArrayLike, cost_fn: ArrayLike) -> Any:
    """The threshold cost_fp / (cost_fp + cost_fn): a float for scalar costs, else an array of the broadcast shape.

    Raises ValueError when a cost is not a finite number above 0.
    """
    fp, fn = _costs(cost_fp, cost_fn)
    threshold = fp / (fp + fn)
    return float(threshold) if threshold.ndim == 0 else threshold


@overload
def acts(p: float, cost_fp: float, cost_fn: float) -> bool: ...
@overload
def acts(p: ArrayLike, cost_fp: ArrayLike, cost_fn: ArrayLike) -> Any: ...
def acts(p: ArrayLike, cost_fp: ArrayLike, cost_fn: ArrayLike) -> Any:
    """d*(p): True where acting is optimal under belief p, a tie included (1e-9 tolerance in p).

    A bool for scalars, else a boolean array of the broadcast shape. Raises ValueError when a belief is not in [0, 1]
    (a NaN neither acts nor holds) or a cost is not a finite number above 0.
    """
    fp, fn = _costs(cost_fp, cost_fn)
    decision = (_beliefs(p) + TOLERANCE) * (fp + fn) >= fp
    return bool(decision) if decision.ndim == 0 else decision


@overload
def expected_costs(p: float, cost_fp: float, cost_fn: float) -> tuple[float, float]: ...
@overload
def expected_costs(p: ArrayLike, cost_fp: ArrayLike, cost_fn: ArrayLike) -> tuple[Any, Any]: ...
def expected_costs(p: ArrayLike, cost_fp: ArrayLike, cost_fn: ArrayLike) -> tuple[Any, Any]:
    """(L(Act; p), L(Hold; p)) = ((1 - p) * cost_fp, p * cost_fn), in the unit of the costs; floats for scalars.

    Raises ValueError like `acts`.
    """
    belief, (fp, fn) = _beliefs(p), _costs(cost_fp, cost_fn)
    act, hold = np.broadcast_arrays((1 - belief) * fp, belief * fn)
    return (float(act), float(hold)) if act.ndim == 0 else (act, hold)


def _costs(cost_fp: ArrayLike, cost_fn: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    fp, fn = np.asarray(cost_fp, dtype=np.float64), np.asarray(cost_fn, dtype=np.float64)
    for name, cost in (("cost_fp", fp), ("cost_fn", fn)):
        if not np.all(np.isfinite(cost) & (cost > 0)):
            raise ValueError(f"{name} must be a finite number above 0, got {cost}")
    return fp, fn


def _beliefs(p: ArrayLike) -> NDArray[np.float64]:
    belief = np.asarray(p, dtype=np.float64)
    if not np.all((belief >= 0) & (belief <= 1)):
        raise ValueError(f"a belief must be in [0, 1], got {belief}")
    return belief
