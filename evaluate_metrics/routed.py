"""The routed system's answers: the gate's where it ended the item, the specialist's where the item went on (P1 §3.4).

The gate (decidability, Direct) decides by its predicted label: A to C end with its belief, D forwards the item in its
complete form to the specialist, an unreadable label does neither and is an error. Both texts of a row of
`builders.schema.ROUTED` are parsed again, and one answer is made of them:

    route        belief and decision       label       an error when
    terminated   the gate's belief, none   A, B or C   the condition is another; always under a true D
    forwarded    the specialist's, both    D           a cost is withheld, or the decision is not the belief's
    unreadable   the gate's belief, none   none        always
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from builders.errors import UserError
from evaluate_metrics.coherence.parsing import Parsed, Reading, complete_fields, decidability_fields, parse

Row = dict[str, Any]

JOINT = "\n\n[forwarded to the specialist]\n\n"
"""Stands between the two texts of a forwarded item; it is not part of either."""

NO_DECISION = Reading(None, "missing")


@dataclass(frozen=True)
class Route:
    """Who answered a routed run: the two adapters as (id, revision), and for each answer whether it was forwarded."""

    gate: tuple[str, str]
    specialist: tuple[str, str]
    forwarded: list[bool]


class RoutedAnswer(NamedTuple):
    """One end-to-end answer: the texts behind it, why they ended, what was read, and whether it was forwarded."""

    text: str
    reason: str
    parsed: Parsed
    forwarded: bool


def read_routes(where: str, rows: Sequence[Row], columns: Mapping[str, Sequence[Any]]) -> list[RoutedAnswer]:
    """The answers of a routed run, one for each benchmark row; columns: those of `ROUTED`, in the order of the rows.

    Raises:
        UserError: a route is not the one that the gate's text implies, or a specialist answered another item.
    """
    names = ("route", "gate_text", "gate_finish_reason", "specialist_item_id", "specialist_text")
    values = zip(*(columns[name] for name in names), columns["specialist_finish_reason"], strict=True)
    answers = []
    for row, (route, gate_text, gate_reason, item_id, text, reason) in zip(rows, values, strict=True):
        answer = read_routed(row, (gate_text or "", gate_reason or ""), (text or "", reason or ""))
        if (implied := _route(answer)) != route:
            raise UserError(
                f"{where}: item {row['item_id']} says {route}, but the gate's text reads as {implied}; route again"
            )
        if answer.forwarded and (item_id or "").split(".")[:3] != row["item_id"].split(".")[:3]:
            raise UserError(f"{where}: item {row['item_id']} was forwarded as {item_id}, which is another item")
        answers.append(answer)
    return answers


def read_routed(row: Row, gate: tuple[str, str], specialist: tuple[str, str]) -> RoutedAnswer:
    """One answer from the (text, finish reason) of the gate and, where it chose D, of the specialist."""
    words = row["act_word"], row["hold_word"]
    first = parse(gate[0], decidability_fields(*words), gate[1])
    if first["choice"].value != "D":
        ended = replace(first, readings={**first.readings, "decision": NO_DECISION})
        return RoutedAnswer(gate[0], gate[1], ended, False)
    second = parse(specialist[0], complete_fields(*words), specialist[1])
    start = len(gate[0]) + len(JOINT)
    readings = {name: _moved(reading, start) for name, reading in second.readings.items()}
    parsed = Parsed(
        {"probability": readings["probability"], "choice": first["choice"], "decision": readings["decision"]},
        ("probability", "choice", "decision"),
        second.form,
        first.revised or second.revised,
    )
    return RoutedAnswer(f"{gate[0]}{JOINT}{specialist[0]}", specialist[1], parsed, True)


def _route(answer: RoutedAnswer) -> str:
    if answer.forwarded:
        return "forwarded"
    return "unreadable" if answer.parsed["choice"].value is None else "terminated"


def _moved(reading: Reading, by: int) -> Reading:
    return reading if reading.span is None else replace(reading, span=(reading.span[0] + by, reading.span[1] + by))
