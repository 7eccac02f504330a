"""Reference beliefs p_E and the spreads of repeated draws (P1 §3.1, Eq. 2; §3.5, Eq. 4; Appendix A).

p_E of a case is the mean of the parseable elicitations of the same model, with the same adapter and the same decoding,
in the style that matches the decision: direct for direct, cot for cot and for in_context (P1 B.2). The floor's m_C and
m_A are means over pairs of draws of one prompt; their intervals resample whole cases.

>>> Elicitations({"wildfire-03": [0.2, 0.3, 0.4], "wildfire-04": [0.9]}).reference_belief("wildfire-03")
0.3
>>> draws = [Draw("wildfire-03", "wildfire", "held_out", "wildfire-03.elicitation.direct", p) for p in (0.2, 0.3, 0.5)]
>>> spread = pair_spread(draws, "case")
>>> round(spread.mean, 3), spread.differences.round(1).tolist()
(0.2, [0.1, 0.3, 0.2])
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from builders.errors import UserError
from builders.styles import ELICITED_WITH
from evaluate_metrics.coherence.floor import Spread
from evaluate_metrics.coherence.references import UNITS
from evaluate_metrics.coherence.resampling import bootstrap_means
from evaluate_metrics.runs import Run

ENOUGH = 3
"""A case with fewer parseable elicitations has no reference belief (DESIGN §6.6)."""


class Draw(NamedTuple):
    """One parseable belief: where it belongs, which prompt it answers (an item id without its repetition), and p."""

    case_id: str
    domain: str
    domain_status: str
    stem: str
    belief: float


@dataclass(frozen=True)
class Elicitations:
    """case_id -> the parseable elicited beliefs of one model in one style; a case without any may be absent."""

    by_case: dict[str, list[float]]
    draws: tuple[Draw, ...] = ()

    def reference_belief(self, case_id: str) -> float | None:
        """p_E: the mean of the case's parseable elicitations, None when there are fewer than three."""
        beliefs = self.by_case.get(case_id, [])
        return math.fsum(beliefs) / len(beliefs) if len(beliefs) >= ENOUGH else None


def read_draws(run: Run) -> list[Draw]:
    """The parseable beliefs of a run, in its order."""
    return [
        Draw(row["case_id"], row["domain"], row["domain_status"], row["item_id"].rpartition(".")[0], float(belief))
        for row, parsed in zip(run.rows, run.parsed, strict=True)
        if (belief := parsed["probability"].value) is not None
    ]


def find_elicitations(run: Run, runs: Iterable[Run]) -> Elicitations | None:
    """The elicitations that a decision run's reference beliefs come from, None when no run has them.

    Raises:
        UserError: two of the runs answer the same elicitation, so that there would be two reference beliefs.
    """
    style = ELICITED_WITH[run.style]
    matching = [
        other for other in runs if (other.task, other.style, other.identity) == ("elicitation", style, run.identity)
    ]
    owner: dict[str, str] = {}
    for other in matching:
        for row in other.rows:
            if (first := owner.setdefault(row["item_id"], other.name)) != other.name:
                raise UserError(f"{first} and {other.name} elicit the same beliefs of the same model; give only one")
    by_case: dict[str, list[float]] = {}
    draws = tuple(draw for other in matching for draw in read_draws(other))
    for draw in draws:
        by_case.setdefault(draw.case_id, []).append(draw.belief)
    return Elicitations(by_case, draws) if matching else None


@dataclass(frozen=True)
class PairSpread(Spread):
    """A `Spread` whose differences belong to units: their mean is over pairs, a resample draws whole units."""

    units: NDArray[np.intp]

    def resample(self, n_resamples: int, rng: np.random.Generator) -> NDArray[np.float64]:
        """(n_resamples,) mean differences, each over the pairs of the units drawn."""
        assert self.differences is not None
        column = self.differences[:, None]
        return bootstrap_means(column, np.ones(column.shape, dtype=bool), self.units, n_resamples, rng)[:, 0]


def pair_spread(draws: Sequence[Draw], unit: str) -> PairSpread | None:
    """The absolute differences of all pairs of draws of one prompt; None when no prompt has two.

    unit: what a resample draws, one of case, domain, item (each pair by itself).
    """
    by_stem: dict[str, list[Draw]] = {}
    for draw in draws:
        by_stem.setdefault(draw.stem, []).append(draw)
    pairs = [pair for repeated in by_stem.values() for pair in combinations(repeated, 2)]
    if not pairs:
        return None
    differences = np.array([abs(first.belief - second.belief) for first, second in pairs])
    column = UNITS[unit]
    names = [index if column is None else getattr(first, column) for index, (first, _) in enumerate(pairs)]
    return PairSpread(float(differences.mean()), differences, np.unique(names, return_inverse=True)[1])
