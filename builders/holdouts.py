"""The eight framing holdouts (P1 §3.3): which two framings an adapter never sees, and under which regime.

A full-class holdout removes a whole payoff structure from training; a cross-class holdout keeps a sibling of each
removed framing. Every framing is held out once under each regime::

    holdout("full-hedge").framings  ->  ("betting", "trading")
    framing_status(holdout("full-hedge"), "betting")  ->  "full_class"
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from builders.errors import UserError

FramingStatus = Literal["seen", "cross_class", "full_class"]
FRAMING_STATUSES: tuple[FramingStatus, ...] = ("seen", "cross_class", "full_class")


@dataclass(frozen=True)
class Holdout:
    """One training configuration: its name, its regime, and the two framings left out."""

    name: str
    regime: Literal["full_class", "cross_class"]
    framings: tuple[str, str]


HOLDOUTS = (
    Holdout("full-protective", "full_class", ("intervention", "insurance")),
    Holdout("full-hedge", "full_class", ("betting", "trading")),
    Holdout("full-payoff", "full_class", ("contingency", "holdout")),
    Holdout("full-ratio", "full_class", ("lossratio", "utilityratio")),
    Holdout("cross-betting-utilityratio", "cross_class", ("betting", "utilityratio")),
    Holdout("cross-holdout-intervention", "cross_class", ("holdout", "intervention")),
    Holdout("cross-insurance-trading", "cross_class", ("insurance", "trading")),
    Holdout("cross-contingency-lossratio", "cross_class", ("contingency", "lossratio")),
)


def holdout(name: str) -> Holdout:
    """The holdout of this name.

    Raises:
        UserError: there is none.
    """
    found = next((each for each in HOLDOUTS if each.name == name), None)
    if found is None:
        raise UserError(f"no framing holdout {name!r}; there are {', '.join(each.name for each in HOLDOUTS)}")
    return found


def framing_status(left_out: Holdout, framing: str) -> FramingStatus:
    """What a framing is to a model trained with a holdout: seen, or held out under the holdout's regime."""
    return left_out.regime if framing in left_out.framings else "seen"
