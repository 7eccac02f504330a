"""SimSUM's causal model of respiratory complaints (Rabaey et al. 2025), and the posterior of an infection under it.

The numbers are the authors', written down here as data; no code of theirs is used. Left out is what tells nothing of an
infection unless it is observed: the practice's policy, self-employment, antibiotics, days at home. ::

    posterior({"dysp": "no", "cough": "yes", "pain": "no", "nasal": "yes", "fever": "low", "winter": "yes"})
    ->  0.976...
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import product

Values = Mapping[str, str]
"""variable -> its state"""

YES_NO = ("yes", "no")


@dataclass(frozen=True)
class Table:
    """P(state | parents): a row of probabilities, in the order of the states, for each combination of parent states."""

    parents: tuple[str, ...]
    rows: Mapping[tuple[str, ...], tuple[float, ...]]
    states: tuple[str, ...] = YES_NO

    def probability(self, state: str, values: Values) -> float:
        """P(state | the parents' states among the values)."""
        return self.rows[tuple(values[parent] for parent in self.parents)][self.states.index(state)]


@dataclass(frozen=True)
class NoisyOr:
    """P(no) = (1 - leak) times (1 - activation) of every parent that is ``yes``."""

    leak: float
    activation: Mapping[str, float]
    states: tuple[str, ...] = field(default=YES_NO)

    def probability(self, state: str, values: Values) -> float:
        """P(state | the parents' states among the values)."""
        no = 1 - self.leak
        for parent, activation in self.activation.items():
            if values[parent] == "yes":
                no *= 1 - activation
        return no if state == "no" else 1 - no


Variable = Table | NoisyOr


def _binary(parents: tuple[str, ...], yes: Mapping[tuple[str, ...], float]) -> Table:
    return Table(parents, {given: (p, 1 - p) for given, p in yes.items()})


MODEL: dict[str, Variable] = {
    "asthma": _binary((), {(): 0.095}),
    "smoking": _binary((), {(): 0.19}),
    "hay_fever": _binary((), {(): 0.015}),
    "winter": _binary((), {(): 0.4}),
    "COPD": _binary(("smoking",), {("no",): 0.0075, ("yes",): 0.073}),
    "pneu": _binary(
        ("COPD", "asthma", "winter"),
        {
            ("no", "no", "no"): 0.005,
            ("no", "no", "yes"): 0.015,
            ("no", "yes", "no"): 0.0065,
            ("no", "yes", "yes"): 0.02,
            ("yes", "no", "no"): 0.013,
            ("yes", "no", "yes"): 0.04,
            ("yes", "yes", "no"): 0.013,
            ("yes", "yes", "yes"): 0.04,
        },
    ),
    "inf": _binary(("winter",), {("no",): 0.05, ("yes",): 0.5}),
    "dysp": NoisyOr(0.05, {"asthma": 0.9, "smoking": 0.3, "COPD": 0.9, "hay_fever": 0.2, "pneu": 0.3}),
    "cough": NoisyOr(0.07, {"asthma": 0.3, "smoking": 0.6, "COPD": 0.4, "pneu": 0.85, "inf": 0.7}),
    "pain": NoisyOr(0.05, {"COPD": 0.15, "cough": 0.2, "pneu": 0.3, "inf": 0.1}),
    "nasal": NoisyOr(0.1, {"hay_fever": 0.85, "inf": 0.7}),
    "fever": Table(
        ("pneu", "inf"),
        {
            ("no", "no"): (0.8, 0.15, 0.05),
            ("no", "yes"): (0.75, 0.2, 0.05),
            ("yes", "no"): (0.1, 0.1, 0.8),
            ("yes", "yes"): (0.05, 0.15, 0.8),
        },
        ("none", "low", "high"),
    ),
}
"""Every variable that bears on an infection, parents first."""

BACKGROUND = ("asthma", "smoking", "hay_fever", "winter", "COPD")
INFECTIONS = ("pneu", "inf")
SYMPTOMS = ("dysp", "cough", "pain", "nasal", "fever")


def states_of(names: tuple[str, ...]) -> list[tuple[str, ...]]:
    """All combinations of states of some variables."""
    return list(product(*(MODEL[name].states for name in names)))


def posterior(evidence: Values) -> float:
    """P(pneumonia or an upper respiratory infection | evidence): all five symptoms, and any of the background.

    The rest of the background is summed out.

    Raises:
        KeyError: a symptom is missing.
    """
    infected, every = joint(evidence)
    return infected / every


def joint(evidence: Values) -> tuple[float, float]:
    """(P(evidence and an infection), P(evidence)), each the correctly rounded sum over what is not observed.

    Raises:
        KeyError: a symptom is missing.
    """
    symptoms = tuple(evidence[name] for name in SYMPTOMS)
    choices = [(evidence[name],) if name in evidence else MODEL[name].states for name in BACKGROUND]
    terms = [_terms(background, symptoms) for background in product(*choices)]
    infected = math.fsum(p for infected, _ in terms for p in infected)
    return infected, math.fsum((infected, *(healthy for _, healthy in terms)))


@cache
def _terms(background: tuple[str, ...], symptoms: tuple[str, ...]) -> tuple[tuple[float, ...], float]:
    """The joint probabilities of one background and its symptoms: with each kind of infection, and without."""
    known = dict(zip((*BACKGROUND, *SYMPTOMS), (*background, *symptoms), strict=True))
    kinds = [known | dict(zip(INFECTIONS, each, strict=True)) for each in states_of(INFECTIONS)]
    probabilities = [_probability(values) for values in kinds]
    return tuple(probabilities[:-1]), probabilities[-1]


def _probability(values: Values) -> float:
    """P(one state of every variable)."""
    return math.prod(variable.probability(values[name], values) for name, variable in MODEL.items())
