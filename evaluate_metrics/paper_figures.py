"""P1's figures 3 and 4 from their points: bars of the SFT systems by slice, and all systems on decidability.

Legible without colour: bars differ in hatch, base levels in dashes, systems in markers, hollow where decoding was
guided. With one model values stand beside their marks; with many the models stand in order of size::

    paper_figures(points, systems)  ->  {"figure-3a": Drawn(svg="<svg ...", png=b"\\x89PNG...", caption="..."), ...}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from evaluate_metrics.figures import INK, PALE, Drawn, render
from evaluate_metrics.points import BARS, ERROR, EXCESS, FIGURE_3, OVERALL, REFERENCES, Point
from evaluate_metrics.systems import BASE, ROUTED, SFT, SYSTEMS, System

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BAR_STYLES = {
    ("framing_status", "seen"): ("seen framings", "#1f3b57", ""),
    ("framing_status", "cross_class"): ("held out, a sibling seen", "#8fa6bd", "////"),
    ("framing_status", "full_class"): ("held out with its class", "#e6ecf2", "xxxx"),
    ("domain_status", "seen"): ("seen domains", "#b4572b", ""),
    ("domain_status", "held_out"): ("held-out domains", "#f3e0d3", "...."),
}
"""slice -> its name, colour and hatch."""

BAR_TICKS = ("seen\nframings", "cross-\nclass", "full-\nclass", "seen\ndomains", "held-out\ndomains")
PLACES = (0.0, 1.0, 2.0, 3.5, 4.5)
"""Where the five bars of a model stand: framings, a gap, domains."""

GROUP = 6.6
"""Distance of two models."""

DASHES = {BASE["direct"]: (0, (5, 2)), BASE["cot"]: (0, (1.2, 1.4)), BASE["in_context"]: (0, (6, 1.5, 1.2, 1.5))}

STYLES: dict[str, tuple[str, str, Any]] = {
    BASE["direct"]: ("o", "#8a8a86", (0, (1.2, 1.6))),
    BASE["cot"]: ("s", "#8a8a86", (0, (5, 2))),
    BASE["in_context"]: ("^", "#8a8a86", (0, (6, 1.5, 1.2, 1.5))),
    SFT["direct"]: ("D", "#1f3b57", (0, (3, 1.2))),
    SFT["cot"]: ("v", "#3f7d6e", (0, (7, 2))),
    ROUTED: ("P", "#b4572b", "-"),
}
"""system -> its marker, colour and dash."""

LABELS = {
    ERROR: "Belief-conditional decision error",
    EXCESS: "Excess belief distortion error",
    "belief_distortion_error": "Raw belief distortion error",
    "information_accuracy": "Information accuracy",
    "joint_accuracy": "Joint accuracy",
}

WHAT = {
    "figure-3a": (
        "Decision error with complete information: the share of decisions that contradict the belief reported beside "
        "them"
    ),
    "figure-3b": (
        "Belief distortion with complete information: how far reported beliefs move from the reference beliefs"
    ),
    "figure-4a": "Information accuracy: the share of items whose condition, A to D, was named",
    "figure-4b": "Decision error on the items that state both costs",
    "figure-4c": (
        "Joint accuracy: the condition named and, where both costs are stated, the decision that follows from the "
        "belief; a missing output counts as wrong"
    ),
    "figure-4d": "Belief distortion over all items that report a belief",
}


def paper_figures(points: Mapping[str, Sequence[Point]], systems: Sequence[System]) -> dict[str, Drawn]:
    """One drawing for each figure that has points; systems: for the sample sizes and the level of no skill."""
    return {name: _draw(name, its, systems) for name, its in points.items()}


def _draw(name: str, points: Sequence[Point], systems: Sequence[System]) -> Drawn:
    shown = [each for each in systems if (each.task == "complete") == (name in FIGURE_3)]
    caption = f"{WHAT[name]}{_floor_words(points)}. {_reading(name, points)} {_sizes(points, shown)}"
    if name in FIGURE_3:
        return render(name, lambda: _bars(points), caption)
    levels = _always_d(shown) if name in ("figure-4a", "figure-4c") else []
    return render(name, lambda: _accuracies(points, levels), caption)


def _floor_words(points: Sequence[Point]) -> str:
    measure = points[0].measure
    if measure == EXCESS:
        return ", above sampling noise"
    return "" if measure in (ERROR, "information_accuracy", "joint_accuracy") else ", sampling noise included"


def _reading(name: str, points: Sequence[Point]) -> str:
    """What bars, lines and markers mean, as far as they occur."""
    better = "Higher is better." if name in ("figure-4a", "figure-4c") else "Lower is better."
    guided = " Hollow markers: guided decoding." if any(point.guided for point in points) else ""
    if name not in FIGURE_3:
        level = " Dotted: an agent that always answers D and acts on its belief." if better.startswith("H") else ""
        return f"{better} Error bars are 95% intervals.{level}{guided}"
    return (
        "Bars pool the adapters of all framing holdouts, by what each had seen: left of the gap by framing "
        "(cross-class: held out while another framing of its class was seen; full-class: its class held out), right of "
        "it by domain. Lines are the base model without SFT, on all framings, weighted to the same mix of domains, and "
        f"on each kind of domain. A dash: no answers. {better} Error bars are 95% intervals.{guided}"
    )


def _sizes(points: Sequence[Point], systems: Sequence[System]) -> str:
    """The answers behind each plotted system."""
    plotted = {(point.model, point.system) for point in points}
    by_model: dict[str, list[str]] = {}
    for each in systems:
        if (each.model, each.label) in plotted:
            holdouts = f" in {_count(len(each.members), 'holdout')}" if each.trained else ""
            by_model.setdefault(each.model, []).append(f"{each.label} {each.answers:,}{holdouts}")
    return "Answers: " + "; ".join(f"{model}: {', '.join(sizes)}" for model, sizes in by_model.items()) + "."


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}{'' if n == 1 else 's'}"


def _always_d(systems: Sequence[System]) -> list[float]:
    """What an agent that always answers D scores on the trained systems' items."""
    shares = {
        sum(row["condition"] == "D" for run in each.members for row in run.run.rows) / each.answers
        for each in systems
        if each.trained
    }
    return sorted(shares)


def _models(points: Sequence[Point]) -> list[str]:
    return list(dict.fromkeys(point.model for point in points))


def _short(model: str) -> str:
    """A model's name on an axis: without its owner, broken at hyphens."""
    lines = [""]
    for part in model.rpartition("/")[2].split("-"):
        if lines[-1] and len(lines[-1]) + len(part) > 14:
            lines[-1] += "-"
            lines.append("")
        lines[-1] += f"-{part}" if lines[-1] else part
    return "\n".join(lines)


def _bars(points: Sequence[Point]) -> Figure:
    """One row of axes for each SFT system, on one vertical scale; a group of five bars for each model."""
    from matplotlib.figure import Figure

    models = _models(points)
    rows = sorted(
        {point.system for point in points if point.system.removesuffix(" (guided)") in REFERENCES},
        key=lambda label: (SYSTEMS.index(label.removesuffix(" (guided)")), label),
    )
    figure = Figure(figsize=(7.2, 0.75 + 1.95 * len(rows)), layout="constrained")
    panels = figure.subplots(len(rows), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
    for axes, row in zip(panels, rows, strict=True):
        compared = REFERENCES[row.removesuffix(" (guided)")]
        for index, model in enumerate(models):
            its = [point for point in points if point.model == model]
            _group(axes, index * GROUP, [point for point in its if point.system == row])
            levels = [point for point in its if point.system.removesuffix(" (guided)") in compared]
            _levels(axes, index * GROUP, levels)
        axes.set_title(row)
        axes.grid(axis="y", color=PALE, linewidth=0.6)
        axes.tick_params(axis="x", length=0)
        axes.set_xlim(-0.9, (len(models) - 1) * GROUP + PLACES[-1] + (2.1 if len(models) == 1 else 0.9))
    panels[0].set_ylim(0, 1.1 * max(max(point.value, point.high or 0) for point in points) or None)
    if len(models) == 1:
        for axes, row in zip(panels, rows, strict=True):
            compared = REFERENCES[row.removesuffix(" (guided)")]
            _name_values(axes, [point for point in points if point.system == row])
            _name_levels(axes, [point for point in points if point.system.removesuffix(" (guided)") in compared])
    if len(models) == 1:
        panels[-1].set_xticks(PLACES, BAR_TICKS)
    else:
        panels[-1].set_xticks([index * GROUP + 2.25 for index in range(len(models))], [_short(name) for name in models])
        figure.legend(handles=_bar_keys(points), loc="outside lower center", ncols=3, handlelength=2.4)
    figure.supylabel(LABELS[points[0].measure], fontsize="medium")
    return figure


def _group(axes: Axes, start: float, points: Sequence[Point]) -> None:
    """The bars of one system of one model; a slice without a value is a dash at its place."""
    by_slice = {(point.slice_kind, point.slice): point for point in points}
    for place, key in zip(PLACES, BARS, strict=True):
        point = by_slice.get(key)
        if point is None:
            axes.text(start + place, 0, "–", ha="center", va="bottom", color=INK)
            continue
        _, colour, hatch = BAR_STYLES[key]
        axes.bar(
            start + place, point.value, 0.86, facecolor=colour, hatch=hatch, edgecolor=_edge(key), linewidth=0.7,
            zorder=2,
        )  # fmt: skip
        if point.low is not None and point.high is not None:
            for under, width in (("white", 2.2), (INK, 1.1)):
                axes.vlines(start + place, point.low, point.high, color=under, linewidth=width, zorder=4)


def _edge(key: tuple[str, str]) -> str:
    return "#1f3b57" if key[0] == "framing_status" else "#b4572b"


def _name_values(axes: Axes, points: Sequence[Point]) -> None:
    """The value above each bar and its interval."""
    for point in points:
        place = PLACES[BARS.index((point.slice_kind, point.slice))]
        top = max(point.value, point.high or 0)
        _value(axes, point, points, (place, top), (0, 2.5), ha="center", va="bottom")


def _value(
    axes: Axes,
    point: Point,
    points: Sequence[Point],
    place: tuple[float, float],
    offset: tuple[float, float],
    **at: Any,
) -> None:
    """A value in print beside its mark, with a third decimal where all values are small."""
    from matplotlib.patheffects import withStroke

    decimals = 2 if max(each.value for each in points) >= 0.1 else 3
    text = axes.annotate(
        f"{point.value:.{decimals}f}", place, offset, textcoords="offset points", fontsize="small", zorder=6, **at
    )
    text.set_path_effects([withStroke(linewidth=2, foreground="white")])


def _levels(axes: Axes, start: float, points: Sequence[Point]) -> None:
    """The base model's levels: one across the framings, one across each kind of domain."""
    spans = {OVERALL: (PLACES[0], PLACES[2]), BARS[3]: (PLACES[3], PLACES[3]), BARS[4]: (PLACES[4], PLACES[4])}
    for point in points:
        first, last = spans[point.slice_kind, point.slice]
        dashes = DASHES[point.system.removesuffix(" (guided)")]
        left, right = start + first - 0.5, start + last + 0.5
        axes.hlines(point.value, left, right, color="white", linewidth=2.4, zorder=3)
        axes.hlines(point.value, left, right, color=INK, linewidth=1.2, linestyle=dashes, zorder=3)
        if point.guided:
            axes.plot(left, point.value, "o", color=INK, markerfacecolor="white", markersize=3.6, zorder=4)


def _name_levels(axes: Axes, points: Sequence[Point]) -> None:
    """The names of the levels at their right ends, pushed apart where they would overlap."""
    ends = [(point.value, point.system) for point in points if (point.slice_kind, point.slice) == BARS[-1]]
    height = -axes.get_ylim()[1]
    for y, label in sorted(ends):
        lines = label.replace(" (", "\n(")
        height = max(y, height + axes.get_ylim()[1] * 0.07 * (1 + lines.count("\n")))
        axes.text(PLACES[-1] + 0.6, height, lines, ha="left", va="center", fontsize="small", linespacing=1.0)


def _bar_keys(points: Sequence[Point]) -> list[Any]:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    keys: list[Any] = []
    for key, (label, colour, hatch) in BAR_STYLES.items():
        if any((point.slice_kind, point.slice) == key for point in points):
            keys.append(Patch(facecolor=colour, hatch=hatch, edgecolor=_edge(key), linewidth=0.7, label=label))
    for label in dict.fromkeys(point.system for point in points):
        if (name := label.removesuffix(" (guided)")) in DASHES:
            line = Line2D([], [], color=INK, linewidth=1.2, linestyle=DASHES[name], label=label)
            line.set(marker="none" if name == label else "o", markerfacecolor="white", markersize=3.6)
            keys.append(line)
    return keys


def _accuracies(points: Sequence[Point], levels: Sequence[float]) -> Figure:
    """Every system: side by side for one model, as lines over the models by size for many."""
    from matplotlib.figure import Figure

    models, measure = _models(points), points[0].measure
    labels = sorted(
        {point.system for point in points},
        key=lambda label: (SYSTEMS.index(label.removesuffix(" (guided)")), label),
    )
    figure = Figure(figsize=(3.9, 2.9 if len(models) == 1 else 3.3), layout="constrained")
    axes = figure.subplots()
    for index, label in enumerate(labels):
        its = {point.model: point for point in points if point.system == label}
        if len(models) == 1:
            _mark(axes, [float(index)], list(its.values()), label, joined=False)
            for point in its.values():
                _value(axes, point, points, (index, point.value), (6, 2), va="center")
        else:
            step = min(0.09, 0.5 / len(labels)) * (index - (len(labels) - 1) / 2)
            places = [position + step for position, model in enumerate(models) if model in its]
            _mark(axes, places, [its[model] for model in models if model in its], label, joined=True)
    for level in levels:
        axes.axhline(level, color=INK, linewidth=0.8, linestyle=(0, (1, 2.2)), zorder=1)
    axes.grid(axis="y", color=PALE, linewidth=0.6)
    axes.tick_params(axis="x", length=0)
    axes.set_ylabel("Decision error, both costs stated" if measure == ERROR else LABELS[measure])
    axes.set_ylim(0, 1.02 if levels else None)
    if len(models) == 1:
        axes.set_xticks(range(len(labels)), [label.replace(" (", "\n(") for label in labels], rotation=35)
        for tick in axes.get_xticklabels():
            tick.set(ha="right", rotation_mode="anchor")
        axes.set_xlim(-0.5, len(labels) - 0.3)
    else:
        axes.set_xticks(range(len(models)), [_short(name) for name in models], fontsize="small")
        axes.set_xlim(-0.4, len(models) - 0.6)
        figure.legend(handles=axes.get_legend_handles_labels()[0], loc="outside lower center", ncols=2)
    return figure


def _mark(axes: Axes, xs: Sequence[float], points: Sequence[Point], label: str, joined: bool) -> None:
    """The markers of one system with their intervals, joined by its line where the models are several."""
    marker, colour, dashes = STYLES[label.removesuffix(" (guided)")]
    for x, point in zip(xs, points, strict=True):
        if point.low is not None and point.high is not None:
            axes.vlines(x, point.low, point.high, color=colour, linewidth=1.1, zorder=2)
    axes.plot(
        xs, [point.value for point in points], marker=marker, color=colour, markersize=5, markeredgewidth=1.0,
        markerfacecolor="white" if label.endswith(" (guided)") else colour, linewidth=1.2,
        linestyle=dashes if joined else "none", label=label, clip_on=False, zorder=3,
    )  # fmt: skip
