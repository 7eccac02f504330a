"""The report on outputs folders: tables as CSV, the figures, and one self-contained report.html.

measures.csv has every slice of every run, counts.csv what could not be read, report.json what it all was made from.
Where there are trained systems, systems.csv has every slice of each, points.csv every plotted point, and the single
runs' figures show the others only.

Everything is rendered first and then renamed into place, so that a folder never holds half a report; the same runs give
the same bytes. The console's table of two runs::

    run                         decoding  answers  parse  distortion  floor  excess  decision err  info acc  joint acc
    base-direct-complete        free        3,200  0.981       0.214  0.102   0.188         0.392         –          –
    base-direct-decidability    free        3,200  0.954       0.201  0.110   0.168         0.377     0.241      0.198
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path

from builders.artifacts import Artifact
from builders.errors import UserError
from builders.framings import FRAMINGS
from builders.holdouts import FRAMING_STATUSES
from evaluate_metrics.beliefs import WHOSE, Whose
from evaluate_metrics.coherence.references import CONDITIONS, UNITS
from evaluate_metrics.estimates import Resampling
from evaluate_metrics.examples import WITHHELD, examples, number
from evaluate_metrics.figures import NAMES, Drawn, figures
from evaluate_metrics.floors import REPLICATES
from evaluate_metrics.pages import aligned, csv_bytes, inline_svg, render_page, write_files
from evaluate_metrics.paper_figures import paper_figures
from evaluate_metrics.points import FIGURE_4, PAPER, Point, figure_points, order_models
from evaluate_metrics.record import RECORD, REGRET_RECORD, Record, digests
from evaluate_metrics.runs import load_runs
from evaluate_metrics.scores import DOMAIN_STATUSES, Count, Score, Scored, score_runs
from evaluate_metrics.systems import System, SystemScore, score_systems

TABLES = ("measures.csv", "counts.csv", "systems.csv", "points.csv")
FILES = (
    *TABLES,
    RECORD,
    "report.html",
    *(f"{name}.{kind}" for name in (*NAMES, *PAPER) for kind in ("svg", "png")),
)
"""Every file that a report may write; those that it does not are removed from an earlier one."""

CONSOLE = {
    "parse_rate": "parse",
    "belief_distortion_error": "distortion",
    "noise_floor": "floor",
    "excess_belief_distortion": "excess",
    "belief_conditional_decision_error": "decision err",
    "information_accuracy": "info acc",
    "joint_accuracy": "joint acc",
}
"""measure -> its heading in the console's table."""


@dataclass(frozen=True, eq=False)
class Report:
    """A written report: the folder, the files in it, the scored runs, the systems that they make up if any is trained,
    the plotted points of these, and what could not be measured and why."""

    folder: Path
    files: tuple[Path, ...]
    scored: tuple[Scored, ...]
    notes: tuple[str, ...]
    systems: tuple[System, ...] = ()
    points: tuple[Point, ...] = ()

    @property
    def page(self) -> Path:
        """The HTML page."""
        return self.folder / "report.html"

    @property
    def table(self) -> str:
        """The headline measures as aligned tables for the console, the trained systems' first."""
        runs = console_table(self.scored)
        return f"{systems_table(self.systems)}\n\n{runs}" if self.systems else runs


def write_report(
    outputs: Sequence[Artifact],
    benchmark: Artifact,
    out: Path,
    n_resamples: int = 1000,
    unit: str = "case",
    seed: int = 124,
    whose: Whose = "base",
) -> Report:
    """Scores every run of the outputs folders against the benchmark that they answer and writes the report to `out`.

    n_resamples, unit (case, domain or item), seed: of the bootstrap behind the 95% intervals; whose: the beliefs that
    an adapter's are compared with, its base model's or its own. The order of the outputs folders does not matter.

    Raises:
        UserError: there is no run, a run does not belong to the benchmark, two runs claim the same reference beliefs or
            are the same system, or `out` is no folder or holds a report on regret.
    """
    if whose not in WHOSE:
        raise UserError(f"no reference {whose!r}; there are {', '.join(WHOSE)}")
    if unit not in UNITS:
        raise UserError(f"no bootstrap unit {unit!r}; there are {', '.join(UNITS)}")
    if n_resamples < 1:
        raise UserError(f"{n_resamples} bootstrap resamples; give at least 1")
    if out.exists() and not out.is_dir():
        raise UserError(f"{out}: is a file; give a folder as --out")
    if (out / REGRET_RECORD).exists():
        raise UserError(f"{out}: holds a report on regret, with a counts.csv of its own; choose another --out")
    resampling = Resampling(n_resamples, unit, seed)
    outputs = sorted(outputs, key=lambda each: (each.id, each.revision, str(each.path)))
    scored = score_runs(load_runs(outputs, benchmark), resampling, whose)
    systems, left_out = score_systems(scored, resampling)
    pooled = {id(each) for system in systems if system.trained for each in system.members}
    points = figure_points(systems)
    drawn = figures([each for each in scored if id(each) not in pooled]) | paper_figures(points, systems)
    notes = (*merge_notes(scored, pooled), *left_out, *(note for system in systems for note in system.notes))
    plotted = [point for its in points.values() for point in its]
    record = Record(resampling, digests(benchmark.path), [digests(each.path) for each in outputs], whose)
    files = {
        RECORD: record.to_json(),
        "measures.csv": csv_bytes(Score, [score for each in scored for score in each.scores]),
        "counts.csv": csv_bytes(Count, [count for each in scored for count in each.count_rows()]),
        "report.html": _page(scored, systems, pooled, drawn, notes, resampling, benchmark, outputs, whose),
    }
    if systems:
        files |= {
            "systems.csv": csv_bytes(SystemScore, [score for system in systems for score in system.scores]),
            "points.csv": csv_bytes(Point, plotted),
        }
    for name, figure in drawn.items():
        files |= {f"{name}.svg": figure.svg.encode(), f"{name}.png": figure.png}
    return Report(out, write_files(out, files, FILES), tuple(scored), notes, tuple(systems), tuple(plotted))


def merge_notes(scored: Sequence[Scored], pooled: Set[int]) -> list[str]:
    """The runs' notes; one that several pooled runs share names them all, at the place of the first."""
    merged: dict[str, list[str]] = {}
    for each in scored:
        for note in each.notes:
            key = note.removeprefix(f"{each.run.name}: ") if id(each) in pooled else note
            merged.setdefault(key, []).append(each.run.name)
    return [
        note if note.startswith(f"{names[0]}: ") else f"{', '.join(names)}: {note}" for note, names in merged.items()
    ]


def systems_table(systems: Sequence[System]) -> str:
    """The headline measures of every system over all its answers, one block for each model."""
    blocks = []
    for model in order_models(each.model for each in systems):
        lines = [("system", "task", "answers", *CONSOLE.values())]
        for each in systems:
            if each.model == model:
                values = [each.get(measure).value for measure in CONSOLE]
                lines.append((each.label, each.task, f"{each.answers:,}", *map(_shown, values)))
        blocks.append(f"{model}\n{aligned(lines, 2)}")
    return "\n\n".join(blocks)


def console_table(scored: Sequence[Scored]) -> str:
    """The headline measures of every run, one aligned line each; a measure that a run does not have is a dash."""
    lines = [("run", "decoding", "answers", *CONSOLE.values())]
    for each in scored:
        values = [each.value(measure) for measure in CONSOLE]
        lines.append((each.run.name, each.run.decoding, f"{len(each.run.rows):,}", *map(_shown, values)))
    return aligned(lines, 2)


def _shown(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _page(
    scored: Sequence[Scored],
    systems: Sequence[System],
    pooled: Set[int],
    drawn: Mapping[str, Drawn],
    notes: Sequence[str],
    resampling: Resampling,
    benchmark: Artifact,
    outputs: Sequence[Artifact],
    whose: Whose,
) -> bytes:
    tasks = ("complete", "decidability")
    by_task = {task: [each for each in scored if each.run.task == task] for task in tasks}
    return render_page(
        "report.html",
        models=sorted({each.run.identity.model for each in scored}),
        scored=scored,
        **by_task,
        systems={task: [each for each in systems if each.task == task] for task in tasks},
        pooled=[each for each in scored if id(each) in pooled],
        figure_4=list(FIGURE_4),
        framing_statuses=FRAMING_STATUSES,
        replicates=REPLICATES,
        whose=whose,
        figures={name: (inline_svg(figure.svg, figure.caption), figure.caption) for name, figure in drawn.items()},
        examples=examples(scored),
        notes=notes,
        resampling=resampling,
        benchmark=benchmark,
        outputs=outputs,
        framings=FRAMINGS,
        domain_statuses=DOMAIN_STATUSES,
        conditions=CONDITIONS,
        withheld=WITHHELD,
        unread=UNREAD,
        number=number,
    )


UNREAD = {
    "missing": "missing",
    "malformed": "malformed",
    "out_of_range": "out of range",
    "truncated": "cut off",
    "empty": "empty answer",
}
"""State of a field that could not be read -> its heading."""
