"""The points of P1's figures 3 and 4, before they are drawn: what ``points.csv`` holds is what the figures show.

Figure 3 compares the SFT systems with complete information, slice by slice, with the base models of the same style;
figure 4 all systems on decidability. One point, a row of ``points.csv``; `raw` is the measure before the floor::

    figure,model,system,slice_kind,slice,measure,value,raw,floor,n,low,high,guided
    figure-3b,Qwen/Qwen2.5-Coder-0.5B-Instruct,Direct SFT,domain_status,held_out,excess_belief_distortion,
        0.152,0.214,0.151,16000,0.121,0.180,False
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from builders.holdouts import FRAMING_STATUSES
from evaluate_metrics.scores import DOMAIN_STATUSES
from evaluate_metrics.systems import BASE, SFT, System

ERROR, RAW, EXCESS = "belief_conditional_decision_error", "belief_distortion_error", "excess_belief_distortion"
FIGURE_3 = {"figure-3a": ERROR, "figure-3b": EXCESS}
FIGURE_4 = {"figure-4a": "information_accuracy", "figure-4b": ERROR, "figure-4c": "joint_accuracy", "figure-4d": EXCESS}
PAPER = (*FIGURE_3, *FIGURE_4)
"""Every figure of P1's that a report may have."""

BARS = (
    *(("framing_status", status) for status in FRAMING_STATUSES),
    *(("domain_status", status) for status in DOMAIN_STATUSES),
)
"""The slices of figure 3, in order."""

OVERALL = ("overall", "all")
REFERENCES = {SFT["direct"]: (BASE["direct"],), SFT["cot"]: (BASE["cot"], BASE["in_context"])}
"""SFT system -> the base prompting that its bars are compared with."""

SIZE = re.compile(r"(?<![A-Za-z0-9.])E?(\d+(?:\.\d+)?)([BM])(?![A-Za-z0-9])", re.I)


@dataclass(frozen=True)
class Point:
    """One plotted value with its interval, the measure before the floor, the floor (None without one), and n."""

    figure: str
    model: str
    system: str
    slice_kind: str
    slice: str
    measure: str
    value: float
    raw: float | None
    floor: float | None
    n: int
    low: float | None
    high: float | None
    guided: bool


def figure_points(systems: Sequence[System]) -> dict[str, list[Point]]:
    """figure -> its points, by model (see `order_models`) and system; a figure without a trained system is left out."""
    complete = [each for each in systems if each.task == "complete"]
    decidability = [each for each in systems if each.task == "decidability"]
    found = {name: list(_points(name, measure, _figure_3(complete))) for name, measure in FIGURE_3.items()}
    found |= {
        name: list(_points(name, measure, [(each, OVERALL) for each in _by_model(decidability)]))
        for name, measure in FIGURE_4.items()
    }
    trained = {each.label for each in systems if each.trained}
    return {name: points for name, points in found.items() if any(point.system in trained for point in points)}


Place = tuple[System, tuple[str, str]]
"""A system and the (slice_kind, slice) that is plotted of it."""


def _figure_3(systems: Sequence[System]) -> list[Place]:
    """Five bars for each SFT system; for its base models one level over all framings and one for each domain status."""
    compared = {base for each in systems for base in REFERENCES.get(each.name, ())}
    return [
        (each, place)
        for each in _by_model(systems)
        if each.trained or each.name in compared
        for place in (BARS if each.trained else (OVERALL, *BARS[len(FRAMING_STATUSES) :]))
    ]


def _by_model(systems: Sequence[System]) -> list[System]:
    order = order_models(each.model for each in systems)
    return sorted(systems, key=lambda each: order.index(each.model))


def _points(figure: str, measure: str, places: Sequence[Place]) -> Iterator[Point]:
    """The points that have a value; the raw distortion for all where one lacks a floor, as the two share no axis."""
    if measure == EXCESS and any(
        each.get(RAW, *place).value is not None and each.get(EXCESS, *place).value is None for each, place in places
    ):
        measure = RAW
    distortion = measure in (RAW, EXCESS)
    for each, place in places:
        value, low, high, n = each.get(measure, *place)
        if value is not None:
            raw = each.get(RAW, *place).value if distortion else value
            floor = each.get("noise_floor", *place).value if distortion else None
            yield Point(figure, each.model, each.label, *place, measure, value, raw, floor, n, low, high, each.guided)


def order_models(models: Iterable[str]) -> list[str]:
    """The models by the size that their ids state, then those that state none; equals by name."""
    return sorted(set(models), key=lambda model: (model_size(model) or math.inf, model))


def model_size(model: str) -> float | None:
    """The parameters that an id states, as in 135M, 0.5B or E2B; None when it states none.

    >>> model_size("HuggingFaceTB/SmolLM2-135M-Instruct"), model_size("google/gemma-4-E2B-it"), model_size("org/model")
    (135000000.0, 2000000000.0, None)
    """
    found = SIZE.search(model.rpartition("/")[2])
    return float(found[1]) * {"B": 1e9, "M": 1e6}[found[2].upper()] if found else None
