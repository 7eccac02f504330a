"""The sampling-noise floor under belief distortion, and the excess above it (P1 §3.5, Eqs. 4 and 5; Appendix A).

Even an undistorted model shows a distortion, since p' is one draw and p_E the mean of five. With m_C the mean absolute
difference of two draws of one decision prompt and m_A the same for two elicitations of one case, sigma is m / sqrt(2)
up to the Gaussian constant, which cancels sqrt(2 / pi): floor = sqrt(m_C**2 / 2 + m_A**2 / 10).

>>> round(noise_floor(0.04, 0.05), 4)
0.0324
>>> round(excess(0.1, 0.0324), 4), excess(0.02, 0.0324)
(0.0946, 0.0)
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .resampling import bootstrap_means

SpreadInput: TypeAlias = float | Sequence[float] | NDArray[np.float64] | None


def noise_floor(decision_spread: Any, elicitation_spread: Any) -> Any:
    """Eq. 4 from the mean absolute pair differences m_C and m_A, in probability; floats or arrays of one shape."""
    floor = np.sqrt(np.square(decision_spread) / 2 + np.square(elicitation_spread) / 10)
    return float(floor) if np.ndim(floor) == 0 else floor


def excess(distortion: Any, floor: Any) -> Any:
    """Eq. 5: sqrt(max(distortion**2 - floor**2, 0)), in probability; floats or arrays of one shape.

    The clamp at zero is P1's display choice: an excess of 0 means "not above the noise", not "no distortion".
    """
    above = np.sqrt(np.maximum(np.square(distortion) - np.square(floor), 0))
    return float(above) if np.ndim(above) == 0 else above


@dataclass(frozen=True)
class Spread:
    """A mean absolute difference between repeated draws, known as a number or from the differences themselves."""

    mean: float
    differences: NDArray[np.float64] | None

    def resample(self, n_resamples: int, rng: np.random.Generator) -> NDArray[np.float64]:
        """(n_resamples,) bootstrap means of the differences; the mean itself where they are not known."""
        if self.differences is None:
            return np.full(n_resamples, self.mean)
        column = self.differences[:, None]
        units = np.arange(len(column))
        return bootstrap_means(column, np.ones(column.shape, dtype=bool), units, n_resamples, rng)[:, 0]


def read_spread(name: str, spread: SpreadInput) -> Spread | None:
    """A `Spread` from what the caller gave for `name`: None, a mean absolute difference, or the differences.

    Raises ValueError when it is empty, not one-dimensional, or holds anything outside [0, 1].
    """
    if spread is None:
        return None
    differences = np.asarray(spread, dtype=np.float64)
    if differences.ndim > 1 or not differences.size or not np.all((differences >= 0) & (differences <= 1)):
        raise ValueError(f"{name} must be an absolute difference in [0, 1] or a sequence of them, got {spread!r:.80}")
    return Spread(float(differences.mean()), differences if differences.ndim else None)
