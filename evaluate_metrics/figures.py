"""The figures of single runs, by framing and condition, and how all figures are drawn: as deterministic SVG and PNG.

They are legible in print and without colour: every run has its own marker as well as its own colour, hollow when its
decoding was guided; bars are 95% intervals::

    figures(scored)  ->  {"decision_error": Drawn(svg="<svg ...", png=b"\\x89PNG...", caption="..."), ...}
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from builders.framings import FRAMINGS
from evaluate_metrics.coherence.references import CONDITIONS
from evaluate_metrics.scores import DOMAIN_STATUSES, Score, Scored

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NAMES = ("decision_error", "belief_distortion", "decidability")
"""Every figure that a report may have; each is a .png and a .svg."""

CONDITION_TICKS = (
    "A: false-positive\ncost missing",
    "B: false-negative\ncost missing",
    "C: both\nmissing",
    "D: complete",
)

MARKERS = "osD^vPX*"
COLOURS = ("#1f3b57", "#b4572b", "#3f7d6e", "#7a5683", "#8a7a2e", "#4f7fb0", "#5c5c5c", "#a33b4a")
INK, PALE = "#2b2b2b", "#d9d6cf"
RC: dict[str, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 8.5,
    "text.color": INK,
    "axes.edgecolor": "#8a8a86",
    "axes.labelcolor": INK,
    "axes.linewidth": 0.7,
    "axes.titlesize": 9,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
    "svg.fonttype": "path",
    "text.parse_math": False,  # a run's name may hold a dollar sign
}
LABELS = {"held_out": "held-out", "lossratio": "loss ratio", "utilityratio": "utility ratio"}


@dataclass(frozen=True)
class Drawn:
    """One figure, ready to be written, with the sentence that says what it shows."""

    svg: str
    png: bytes
    caption: str


def figures(scored: Sequence[Scored]) -> dict[str, Drawn]:
    """The figures of single runs that the runs allow, by name: two from complete runs, one from decidability runs."""
    complete = [each for each in scored if each.run.task == "complete"]
    decidability = [each for each in scored if each.run.task == "decidability"]
    drawn: dict[str, Drawn] = {}
    if complete:
        drawn["decision_error"] = _decision_error(complete)
        if any(each.value("belief_distortion_error") is not None for each in complete):
            drawn["belief_distortion"] = _belief_distortion(complete)
    if decidability:
        drawn["decidability"] = _decidability(decidability)
    return drawn


def _decision_error(scored: Sequence[Scored]) -> Drawn:
    measure, label = "belief_conditional_decision_error", "Belief-conditional decision error"
    caption = (
        "Belief-conditional decision error with complete information: the share of decisions that contradict the "
        "belief reported beside them, by framing and by domain status. Lower is better. Bars are 95% intervals."
    )
    return render("decision_error", lambda: _by_slice(scored, measure, label), caption + _hollow(scored))


def _belief_distortion(scored: Sequence[Scored]) -> Drawn:
    """The excess when every run has a floor; else the raw error for all, since the two do not share an axis."""
    measured = [each for each in scored if each.value("belief_distortion_error") is not None]
    if all(each.value("excess_belief_distortion") is not None for each in measured):
        measure, label = "excess_belief_distortion", "Excess belief distortion error"
        what = (
            "Excess belief distortion error: how far reported beliefs move from the reference beliefs, above sampling "
            "noise,"
        )
    else:
        measure, label = "belief_distortion_error", "Raw belief distortion error"
        what = (
            "Raw belief distortion error, sampling noise included because not every run has a noise floor: how far "
            "reported beliefs move from the reference beliefs,"
        )
    caption = f"{what} by framing and by domain status. Lower is better. Bars are 95% intervals."
    return render("belief_distortion", lambda: _by_slice(measured, measure, label), caption + _hollow(measured))


def _decidability(scored: Sequence[Scored]) -> Drawn:
    caption = (
        "Decidability: accuracy of the label over all four conditions, joint accuracy of label and decision, and the "
        "recall of each condition. An agent that always answers D, and acts on its belief, scores the "
        "dashed line; a uniform guess of the label has the recall of the dotted one. Higher is better. "
        "Bars are 95% intervals."
    )
    return render("decidability", lambda: _accuracies(scored), caption + _hollow(scored))


def _hollow(scored: Sequence[Scored]) -> str:
    return " Hollow markers: guided decoding." if any(each.run.identity.guided for each in scored) else ""


def render(name: str, draw: Callable[[], Figure], caption: str) -> Drawn:
    """Draws in the style of all figures, the same bytes each time."""
    import matplotlib.style

    png, svg = io.BytesIO(), io.StringIO()
    styles: list[Any] = ["default", {**RC, "svg.hashsalt": name}]  # the default first: a person's own style stays out
    with matplotlib.style.context(styles):
        figure = draw()
        figure.savefig(svg, format="svg", metadata={"Date": None, "Creator": None})
        figure.savefig(png, format="png", metadata={"Software": None}, dpi=200)
    return Drawn(svg.getvalue(), png.getvalue(), caption)


def _by_slice(scored: Sequence[Scored], measure: str, label: str) -> Figure:
    """Eight framings, grouped by class, beside the two domain statuses, on one vertical axis."""
    figure = _figure(len(scored), 3.0)
    left, right = figure.subplots(1, 2, sharey=True, width_ratios=(8, 2))
    names = [framing.name for framing in FRAMINGS]
    _points(left, [[each.get(measure, "framing", name) for name in names] for each in scored], scored)
    _points(right, [[each.get(measure, "domain_status", name) for name in DOMAIN_STATUSES] for each in scored], scored)
    _name_ticks(left, names, rotation=28)
    _name_ticks(right, DOMAIN_STATUSES, rotation=28)
    for start in (1.5, 3.5, 5.5):
        left.axvline(start, color=PALE, linewidth=0.8)
    for start in range(0, len(FRAMINGS), 2):
        _head(left, start + 0.5, FRAMINGS[start].framing_class)
    _head(right, 0.5, "domains")
    left.set_ylabel(label)
    left.set_ylim(bottom=0)
    _legend(figure, left)
    return figure


def _accuracies(scored: Sequence[Scored]) -> Figure:
    """Information and joint accuracy beside the recall of each condition."""
    figure = _figure(len(scored), 2.8)
    left, right = figure.subplots(1, 2, sharey=True, width_ratios=(2, 4))
    _points(left, [[each.get(name) for name in ("information_accuracy", "joint_accuracy")] for each in scored], scored)
    _points(right, [[each.get(f"recall_{letter.lower()}") for letter in CONDITIONS] for each in scored], scored)
    _name_ticks(left, ("information", "joint"))
    _name_ticks(right, CONDITION_TICKS)
    _baseline(left, sorted({_share_of_d(each) for each in scored}), (0, (5, 3)), "always answers D")
    _baseline(right, [1 / len(CONDITIONS)], (0, (1, 2)), "uniform guess")
    left.set_title("Accuracy")
    right.set_title("Recall of each condition")
    left.set_ylim(0, 1.02)
    _legend(figure, left, right.lines[-1:])
    return figure


def _share_of_d(scored: Scored) -> float:
    """What an agent that always answers D scores."""
    conditions = [row["condition"] for row in scored.run.rows]
    return conditions.count("D") / len(conditions)


def _baseline(axes: Axes, heights: Sequence[float], dashes: Any, label: str) -> None:
    """A level that needs no skill; several where the runs differ in their items, under one label."""
    for index, height in enumerate(heights):
        axes.axhline(height, color=INK, linewidth=0.9, linestyle=dashes, zorder=1, label="" if index else label)


def _head(axes: Axes, x: float, text: str) -> None:
    axes.text(x, 1.02, text, transform=axes.get_xaxis_transform(), ha="center", va="bottom", style="italic")


def _figure(n_runs: int, height: float) -> Figure:
    from matplotlib.figure import Figure

    return Figure(figsize=(7.2, height + 0.19 * ((n_runs + 1) // 2)), layout="constrained")


def _points(axes: Axes, scores: Sequence[Sequence[Score | None]], scored: Sequence[Scored]) -> None:
    """One marker with its interval for each run (outer) and position (inner), runs side by side at each position."""
    step = min(0.17, 0.72 / len(scores))
    for index, (row, each) in enumerate(zip(scores, scored, strict=True)):
        points = [
            (position + step * (index - (len(scores) - 1) / 2), score.value, score.low, score.high)
            for position, score in enumerate(row)
            if score is not None and score.value is not None
        ]
        colour = COLOURS[index % len(COLOURS)]
        xs, ys = [point[0] for point in points], [point[1] for point in points]
        for x, _, low, high in points:
            if low is not None and high is not None:
                axes.vlines(x, low, high, color=colour, linewidth=1.1)
        axes.plot(
            xs, ys, MARKERS[index % len(MARKERS)], color=colour, markersize=4.6, markeredgewidth=1.0,
            markerfacecolor="white" if each.run.identity.guided else colour, label=_legend_text(each),
            clip_on=False, zorder=3,
        )  # fmt: skip
    axes.grid(axis="y", color=PALE, linewidth=0.6)
    axes.tick_params(axis="x", length=0)


def _legend_text(scored: Scored) -> str:
    name = scored.run.name
    return f"{name} (guided)" if scored.run.identity.guided and "guided" not in name else name


def _name_ticks(axes: Axes, names: Sequence[str], rotation: float = 0) -> None:
    axes.set_xticks(range(len(names)), [LABELS.get(name, name) for name in names])
    axes.set_xlim(-0.5, len(names) - 0.5)
    if rotation:
        axes.tick_params(axis="x", rotation=rotation)
        for label in axes.get_xticklabels():
            label.set(ha="right", rotation_mode="anchor")


def _legend(figure: Figure, axes: Axes, more: Sequence[Any] = ()) -> None:
    handles = [*axes.get_legend_handles_labels()[0], *more]
    figure.legend(handles=handles, loc="outside lower center", ncols=min(2, len(handles)), handletextpad=0.4)
