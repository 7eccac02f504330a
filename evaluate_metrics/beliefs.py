"""Reference beliefs p_E: the elicitations that a run's decisions are compared with (P1 §3.1, Eq. 2; §3.3; §3.5).

p_E of a case is the mean of the parseable elicitations in the style that matches the decision: direct for direct, cot
for cot and for in_context (P1 B.2). A base model is compared with itself, in the same decoding; an adapter with its
base model, whose beliefs it was trained to keep; a routed answer with the reference of the component that gave it.

>>> Elicitations({"wildfire-03": [0.2, 0.3, 0.4], "wildfire-04": [0.9]}).reference_belief("wildfire-03")
0.3
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from builders.errors import UserError
from builders.outputs import ENOUGH_BELIEFS
from builders.styles import ELICITED_WITH
from evaluate_metrics.floors import Draw
from evaluate_metrics.runs import Identity, Run

Whose = Literal["base", "own"]
WHOSE: tuple[Whose, ...] = ("base", "own")
"""Whose beliefs an adapter's are compared with: its base model's (P1), or its own, elicited with the adapter."""


@dataclass(frozen=True)
class Elicitations:
    """case_id -> the parseable elicited beliefs of one model in one style; a case without any may be absent."""

    by_case: dict[str, list[float]]
    draws: tuple[Draw, ...] = ()

    def reference_belief(self, case_id: str) -> float | None:
        """p_E: the mean of the case's parseable elicitations, None when there are fewer than three."""
        beliefs = self.by_case.get(case_id, [])
        return math.fsum(beliefs) / len(beliefs) if len(beliefs) >= ENOUGH_BELIEFS else None


@dataclass(frozen=True)
class References:
    """The reference belief of each answer of a run, the elicitations they come from, and what a reader must know.

    `elicited` are the draws of the cases answered; `found` says whether there is any elicitation run.
    """

    beliefs: tuple[float | None, ...]
    elicited: tuple[Draw, ...]
    found: bool
    notes: tuple[str, ...] = ()


def read_draws(run: Run) -> list[Draw]:
    """The parseable beliefs of a run, in its order, then those of its resample."""
    draws = [
        Draw(row["case_id"], row["domain"], row["domain_status"], row["item_id"], run.name, float(belief))
        for row, parsed in zip(run.rows, run.parsed, strict=True)
        if (belief := parsed["probability"].value) is not None
    ]
    return draws + (read_draws(run.resample) if run.resample else [])


def find_elicitations(identity: Identity, style: str, runs: Iterable[Run]) -> Elicitations | None:
    """The elicitations of a model in the style that matches a decision's `style`, None when no run has them.

    Raises:
        UserError: two of the runs answer the same elicitation, so that there would be two reference beliefs.
    """
    asked = ("elicitation", ELICITED_WITH[style], identity)
    matching = [other for other in runs if (other.task, other.style, other.identity) == asked]
    owner: dict[str, str] = {}
    for other in matching:
        for row in other.rows:
            if (first := owner.setdefault(row["item_id"], other.name)) != other.name:
                raise UserError(f"{first} and {other.name} elicit the same beliefs of the same model; give only one")
    by_case: dict[str, list[float]] = {}
    draws = tuple(draw for other in matching for draw in read_draws(replace(other, resample=None)))
    for draw in draws:
        by_case.setdefault(draw.case_id, []).append(draw.belief)
    return Elicitations(by_case, draws) if matching else None


class Library:
    """The reference beliefs of all runs, looked up among the elicitation runs, each elicitation read once."""

    def __init__(self, runs: Iterable[Run], whose: Whose = "base") -> None:
        self.runs = [run for run in runs if run.task == "elicitation"]
        self.whose = whose
        self.found: dict[tuple[Identity, str], Elicitations | None] = {}

    def references(self, run: Run) -> References:
        """The reference belief of every answer of a decision run.

        Raises:
            UserError: see `find_elicitations`.
        """
        if run.route is None:
            parts = [(run.identity, run.style, [True] * len(run.rows))]
        else:
            forwarded = run.route.forwarded
            base = run.identity
            gate, specialist = (
                base._replace(adapter=name, adapter_revision=revision)
                for name, revision in (run.route.gate, run.route.specialist)
            )
            parts = [(gate, "direct", [not each for each in forwarded]), (specialist, "cot", forwarded)]
        beliefs: list[float | None] = [None] * len(run.rows)
        elicited: list[Draw] = []
        notes: list[str] = []
        found = False
        for identity, style, of_part in parts:
            if not any(of_part):
                continue
            elicitations, note = self._look_up(identity, style)
            notes += [note] if note else []
            if elicitations is not None:
                found = True
                cases = {row["case_id"] for row, its in zip(run.rows, of_part, strict=True) if its}
                known = {case: elicitations.reference_belief(case) for case in cases}
                elicited += [draw for draw in elicitations.draws if draw.case_id in cases]
                for index, row in enumerate(run.rows):
                    if of_part[index]:
                        beliefs[index] = known[row["case_id"]]
        return References(tuple(beliefs), tuple(elicited), found, tuple(notes))

    def _look_up(self, identity: Identity, style: str) -> tuple[Elicitations | None, str]:
        """The elicitations behind one model's decisions, and a note where they are missing or not quite the same."""
        decoding = {True: "guided", False: "free"}
        of_base = identity.adapter is not None and self.whose == "base"
        asked = identity._replace(adapter=None, adapter_revision=None) if of_base else identity
        if (found := self._find(asked, style)) is not None:
            return found, ""
        if of_base and (found := self._find(asked._replace(guided=not asked.guided), style)) is not None:
            return found, (
                f"{decoding[asked.guided]} answers are compared with the {decoding[not asked.guided]} "
                f"{ELICITED_WITH[style]} elicitations of the base model, there being no others"
            )
        who = "its base model" if of_base else "the same model" if identity.adapter is None else "the adapter itself"
        how = "" if of_base else f"{decoding[asked.guided]} "
        return None, (
            f"no {how}elicitation run of {who} for {style} decisions among the outputs, so belief distortion is not "
            "measured"
        )

    def _find(self, identity: Identity, style: str) -> Elicitations | None:
        key = identity, ELICITED_WITH[style]
        if key not in self.found:
            self.found[key] = find_elicitations(identity, style, self.runs)
        return self.found[key]
