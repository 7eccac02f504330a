"""P2's figures: regret by threshold in its two parts, and what adapters change, by format and by trained threshold.

Legible in print and without colour: the two parts differ in hatch, total regret is a marked line, formats and kinds of
threshold have markers of their own, hollow where decoding was guided::

    regret_figures(scored, settings)  ->  {"thresholds-weather": Drawn(svg="<svg ...", png=b"\\x89PNG...", ...), ...}
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from evaluate_metrics.coherence.revealed import LOSSES
from evaluate_metrics.figures import INK, PALE, Drawn, render
from evaluate_metrics.regret_runs import CONFIGS, DECIDED
from evaluate_metrics.regret_scores import HELD_OUT, PARTS, TRAINED, Difference, Scored, Settings

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SYNTHETIC = CONFIGS[0]
THRESHOLDS = (*(f"thresholds-{SYNTHETIC}-{form}" for form in DECIDED), *(f"thresholds-{name}" for name in CONFIGS[1:]))
CHANGES = ("differences", "held_out")
NAMES = (*THRESHOLDS, *CHANGES)
"""Every figure that a report on regret may have; each is a .png and a .svg."""

FORMAT_WORDS = {"independent": "independent", "two_turn": "two-turn"}
PART_WORDS = {
    "total_regret": "Total regret",
    "belief_loss": "Belief loss",
    "optimisation_residual": "Optimisation residual",
}
BLUE, ORANGE = "#1f3b57", "#b4572b"
PARTS_STYLE: dict[str, dict[str, Any]] = {
    "belief_loss": {"facecolor": "#8fa6bd", "edgecolor": BLUE, "hatch": ""},
    "optimisation_residual": {"facecolor": "#f6e7db", "edgecolor": ORANGE, "hatch": "//////"},
}


class Series(NamedTuple):
    """What one kind of marker stands for: its name, marker and colour."""

    name: str
    marker: str
    colour: str


FORMATS = {"independent": Series("independent", "o", BLUE), "two_turn": Series("two-turn", "s", ORANGE)}
KINDS = {TRAINED: Series("trained thresholds", "^", BLUE), HELD_OUT: Series("held-out thresholds", "D", ORANGE)}

Mark = tuple[Series, Scored, str]
"""One marker with its interval: what it stands for, and whose difference on which slice it is."""


def regret_figures(scored: Sequence[Scored], settings: Settings) -> dict[str, Drawn]:
    """The figures that the scores allow, by name."""
    drawn: dict[str, Drawn] = {}
    for name in THRESHOLDS:
        _, config, *forms = name.split("-")
        chosen = [s for s in scored if s.answered.config == config and s.answered.form in (forms or DECIDED)]
        if chosen:
            drawn[name] = _thresholds(name, chosen, settings)
    by_task = sorted(scored, key=lambda each: CONFIGS.index(each.answered.config))
    compared = [s for s in by_task if (total := s.difference(PARTS[0])) is not None and total.value is not None]
    if compared:
        drawn["differences"] = _differences(compared)
        if settings.trained is not None:
            drawn["held_out"] = _held_out(compared)
    return drawn


# --- By threshold ----------------------------------------------------------------------------------------------------


Panel = tuple[Scored, str]
"""Whose regret on which slice one panel shows."""


def _thresholds(name: str, scored: Sequence[Scored], settings: Settings) -> Drawn:
    """One row for each system; in a column a number of features of `synthetic`, a format of the other configs."""
    config, form = scored[0].answered.config, scored[0].answered.form
    panels: dict[str, dict[str, Panel]] = {}
    for each in scored:
        row = panels.setdefault(_row_title(each, scored), {})
        if config == SYNTHETIC:
            row |= {f"k = {name.removeprefix('k=')}": (each, name) for name in each.features}
        else:
            row[FORMAT_WORDS[each.answered.form]] = (each, "all")
    asked = f", {FORMAT_WORDS[form]} format" if config == SYNTHETIC else ""
    caption = (
        f"Normalised regret on {config}{asked}, by threshold: "
        "bars stack belief loss and the signed optimisation residual (below 0 where the action is better than the one "
        "that the belief implies), the marked line is their sum, total regret, with 95% intervals over instances. "
        f"A dash: nothing was read. Lower is better. {_columns_words(config)}"
    )
    if settings.trained is not None:
        caption += " Shaded: thresholds that adapters were trained on."
    caption += _hollow(scored)
    return render(name, partial(_draw_thresholds, panels, settings), caption)


def _columns_words(config: str) -> str:
    return "Columns: number of features k." if config == SYNTHETIC else "Columns: how decisions were asked for."


def _row_title(scored: Scored, among: Sequence[Scored]) -> str:
    """The system, and the split where the figure has several."""
    several = len({each.answered.split for each in among}) > 1
    return f"{scored.answered.title}{f', {scored.answered.split}' if several else ''}"


def _draw_thresholds(panels: dict[str, dict[str, Panel]], settings: Settings) -> Figure:
    from matplotlib.figure import Figure

    columns = sorted({column for row in panels.values() for column in row}, key=_column_order)
    figure = Figure(figsize=(7.2, 1.0 + 1.45 * len(panels)), layout="constrained")
    grid = figure.subplots(len(panels), len(columns), sharex=True, sharey=True, squeeze=False)
    for line, (title, row) in zip(grid, panels.items(), strict=True):
        line[0].set_ylabel(textwrap.fill(title, 20), fontsize="small")
        for axes, column in zip(line, columns, strict=True):
            _shade(axes, settings)
            if column in row:
                _decomposition(axes, *row[column])
            else:
                axes.text(0.5, 0.5, "not run", transform=axes.transAxes, ha="center", va="center", style="italic")
    for axes, column in zip(grid[0], columns, strict=True):
        axes.set_title(column)
    for axes in grid[-1]:
        axes.set_xticks(LOSSES, [f".{loss}" for loss in LOSSES], fontsize="small")
        axes.set_xlabel("threshold")
    figure.legend(handles=_part_keys(), loc="outside lower center", ncols=3, handlelength=2.2)
    return figure


def _column_order(column: str) -> tuple[int, str]:
    words = list(FORMAT_WORDS.values())
    return (words.index(column), "") if column in words else (len(words), f"{int(column.removeprefix('k = ')):03}")


def _shade(axes: Axes, settings: Settings) -> None:
    """Where adapters were trained, and the line between loss and gain."""
    for loss in settings.trained or ():
        axes.axvspan(loss - 0.5, loss + 0.5, facecolor=PALE, alpha=0.45, linewidth=0, zorder=0)
    axes.axhline(0, color=INK, linewidth=0.7, zorder=3)
    axes.grid(axis="y", color=PALE, linewidth=0.6)
    axes.tick_params(axis="x", length=0)
    axes.tick_params(axis="y", labelsize="small")
    axes.spines["bottom"].set_visible(False)
    axes.set_xlim(0.4, 9.6)


def _decomposition(axes: Axes, scored: Scored, slice_name: str) -> None:
    """Two stacked bars at each threshold, a residual below 0 hanging from it, and total regret as a marked line."""
    totals = [scored.get(f"total_regret_t{loss}", slice_name) for loss in LOSSES]
    for loss in LOSSES:
        belief, residual = (scored.value(f"{part}_t{loss}", slice_name) for part in PARTS[1:])
        if belief is None or residual is None:
            axes.text(loss, 0, "–", ha="center", va="bottom", color=INK)
            continue
        axes.bar(loss, belief, 0.76, linewidth=0.6, zorder=2, **PARTS_STYLE[PARTS[1]])
        start = belief if residual > 0 else 0.0
        axes.bar(loss, residual, 0.76, bottom=start, linewidth=0.6, zorder=2, **PARTS_STYLE[PARTS[2]])
    for loss, score in zip(LOSSES, totals, strict=True):
        if score is not None and score.low is not None and score.high is not None:
            axes.vlines(loss, score.low, score.high, color=INK, linewidth=0.9, zorder=4)
    values = [float("nan") if score is None or score.value is None else score.value for score in totals]
    guided = scored.answered.system.identity.guided
    axes.plot(
        LOSSES, values, "-o", color=INK, linewidth=0.9, markersize=3.2, markeredgewidth=0.8,
        markerfacecolor="white" if guided else INK, clip_on=False, zorder=5,
    )  # fmt: skip


def _part_keys() -> list[Any]:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    parts: list[Any] = [Patch(label=PART_WORDS[part], linewidth=0.6, **PARTS_STYLE[part]) for part in PARTS[1:]]
    total = Line2D([], [], marker="o", color=INK, linewidth=0.9, markersize=3.2, label=PART_WORDS[PARTS[0]])
    return [*parts, total]


# --- Differences to the base model -----------------------------------------------------------------------------------


def _differences(scored: Sequence[Scored]) -> Drawn:
    """A row of markers for each adapter, one marker for each format."""
    rows: dict[str, dict[str, list[Mark]]] = {}
    for each in scored:
        marks = rows.setdefault(_group_title(each, scored), {}).setdefault(each.answered.title, [])
        marks.append((FORMATS[each.answered.form], each, "all"))
    caption = (
        "What training changed: total regret and its two parts minus those of the base model on the same items, by "
        "task, adapter and format, with paired 95% intervals over instances. Left of 0 is better; the differences of "
        f"the parts add up to that of total regret.{_hollow(scored)}"
    )
    return render("differences", partial(_draw_differences, rows), caption)


def _held_out(scored: Sequence[Scored]) -> Drawn:
    """A row of markers for each adapter and format, one marker for each kind of threshold."""
    rows: dict[str, dict[str, list[Mark]]] = {}
    for each in scored:
        title = f"{each.answered.title}, {FORMAT_WORDS[each.answered.form]}"
        marks = rows.setdefault(_group_title(each, scored), {}).setdefault(title, [])
        marks += [(series, each, name) for name, series in KINDS.items()]
    caption = (
        "Thresholds that adapters were not trained on: differences to the base model at the trained and at the "
        f"held-out thresholds, with paired 95% intervals over instances. Left of 0 is better.{_hollow(scored)}"
    )
    return render("held_out", partial(_draw_differences, rows), caption)


def _hollow(scored: Sequence[Scored]) -> str:
    guided = any(each.answered.system.identity.guided for each in scored)
    return " Hollow markers: guided decoding." if guided else ""


def _group_title(scored: Scored, among: Sequence[Scored]) -> str:
    """The config, and the split where there are several."""
    several = len({each.answered.split for each in among}) > 1
    return f"{scored.answered.config}{f', {scored.answered.split}' if several else ''}"


def _draw_differences(rows: dict[str, dict[str, list[Mark]]]) -> Figure:
    """Groups (tasks) below each other, on axes of their own: regrets of different tasks are not to be compared."""
    from matplotlib.figure import Figure

    sizes = [len(lines) for lines in rows.values()]
    figure = Figure(figsize=(7.2, 0.9 + sum(0.55 + 0.36 * size for size in sizes)), layout="constrained")
    heights = [1 + size for size in sizes]
    grid = figure.subplots(len(rows), 3, sharex="row", sharey="row", squeeze=False, height_ratios=heights)
    for line, (title, marks) in zip(grid, rows.items(), strict=True):
        for axes, measure in zip(line, PARTS, strict=True):
            _change(axes, list(marks.values()), measure)
        line[0].set_yticks(range(len(marks)), [textwrap.fill(name, 26) for name in marks])
        line[0].set_ylim(len(marks) - 0.5, -0.5)
        line[0].set_ylabel(title, fontweight="bold")
    for axes, measure in zip(grid[0], PARTS, strict=True):
        axes.set_title(PART_WORDS[measure])
    grid[-1][1].set_xlabel("difference to the base model")
    figure.legend(handles=_series_keys(rows), loc="outside lower center", ncols=2, handletextpad=0.4)
    return figure


def _change(axes: Axes, lines: Sequence[Sequence[Mark]], measure: str) -> None:
    """The markers of one measure with their intervals; the markers of one line above each other."""
    axes.axvline(0, color=INK, linewidth=0.8, zorder=1)
    axes.grid(axis="x", color=PALE, linewidth=0.6)
    axes.tick_params(axis="y", length=0)
    axes.tick_params(axis="x", labelsize="small")
    axes.locator_params(axis="x", nbins=5)
    for place, marks in enumerate(lines):
        for index, (series, scored, slice_name) in enumerate(marks):
            difference = scored.difference(measure, slice_name)
            if difference is not None and difference.value is not None:
                y = place + 0.22 * (index - (len(marks) - 1) / 2)
                _mark(axes, y, difference, difference.value, series)


def _mark(axes: Axes, y: float, difference: Difference, value: float, series: Series) -> None:
    if difference.low is not None and difference.high is not None:
        axes.hlines(y, difference.low, difference.high, color=series.colour, linewidth=1.1, zorder=2)
    axes.plot(
        value, y, series.marker, color=series.colour, markersize=4.6, markeredgewidth=1.0,
        markerfacecolor="white" if difference.guided else series.colour, clip_on=False, zorder=3,
    )  # fmt: skip


def _series_keys(rows: dict[str, dict[str, list[Mark]]]) -> list[Any]:
    from matplotlib.lines import Line2D

    used = {mark[0] for lines in rows.values() for marks in lines.values() for mark in marks}
    return [
        Line2D([], [], marker=each.marker, color=each.colour, linestyle="none", markersize=4.6, label=each.name)
        for each in (*FORMATS.values(), *KINDS.values())
        if each in used
    ]
