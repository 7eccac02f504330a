"""The report on outputs folders: measures.csv, counts.csv, the figures, and one self-contained report.html.

Everything is rendered first and then renamed into place, so that a folder never holds half a report; the same runs give
the same bytes. The console's table of two runs::

    run                         decoding  answers  parse  distortion  floor  excess  decision err  info acc  joint acc
    base-direct-complete        free        3,200  0.981       0.214  0.102   0.188         0.392         –          –
    base-direct-decidability    free        3,200  0.954       0.201  0.110   0.168         0.377     0.241      0.198
"""

from __future__ import annotations

import csv
import dataclasses
import io
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from builders.artifacts import Artifact
from builders.errors import UserError
from builders.framings import FRAMINGS
from evaluate_metrics.coherence.references import CONDITIONS, UNITS
from evaluate_metrics.examples import WITHHELD, examples, number
from evaluate_metrics.figures import NAMES, Drawn, figures
from evaluate_metrics.runs import load_runs
from evaluate_metrics.scores import DOMAIN_STATUSES, Count, Resampling, Score, Scored, score_runs

FILES = ("measures.csv", "counts.csv", "report.html", *(f"{name}.{kind}" for name in NAMES for kind in ("svg", "png")))
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
    """A written report: the folder, the files in it, the scored runs, and what could not be measured and why."""

    folder: Path
    files: tuple[Path, ...]
    scored: tuple[Scored, ...]
    notes: tuple[str, ...]

    @property
    def page(self) -> Path:
        """The HTML page."""
        return self.folder / "report.html"

    @property
    def table(self) -> str:
        """The headline measures as an aligned table for the console."""
        return console_table(self.scored)


def write_report(
    outputs: Sequence[Artifact],
    benchmark: Artifact,
    out: Path,
    n_resamples: int = 1000,
    unit: str = "case",
    seed: int = 124,
) -> Report:
    """Scores every run of the outputs folders against the benchmark that they answer and writes the report to `out`.

    n_resamples, unit (case, domain or item), seed: of the bootstrap behind the 95% intervals.

    Raises:
        UserError: there is no run, a run does not belong to the benchmark, two runs claim the same reference beliefs,
            or `out` is no folder.
    """
    if unit not in UNITS:
        raise UserError(f"no bootstrap unit {unit!r}; there are {', '.join(UNITS)}")
    if n_resamples < 1:
        raise UserError(f"{n_resamples} bootstrap resamples; give at least 1")
    if out.exists() and not out.is_dir():
        raise UserError(f"{out}: is a file; give a folder as --out")
    resampling = Resampling(n_resamples, unit, seed)
    scored = score_runs(load_runs(outputs, benchmark), resampling)
    notes = tuple(note for each in scored for note in each.notes)
    drawn = figures(scored)
    files = {
        "measures.csv": _csv(Score, [score for each in scored for score in each.scores]),
        "counts.csv": _csv(Count, [count for each in scored for count in each.count_rows()]),
        "report.html": _page(scored, drawn, notes, resampling, benchmark, outputs),
    }
    for name, figure in drawn.items():
        files |= {f"{name}.svg": figure.svg.encode(), f"{name}.png": figure.png}
    return Report(out, _write_files(out, files), tuple(scored), notes)


def console_table(scored: Sequence[Scored]) -> str:
    """The headline measures of every run, one aligned line each; a measure that a run does not have is a dash."""
    lines = [("run", "decoding", "answers", *CONSOLE.values())]
    for each in scored:
        values = [each.value(measure) for measure in CONSOLE]
        numbers = ["–" if value is None else f"{value:.3f}" for value in values]
        lines.append((each.run.name, each.run.decoding, f"{len(each.run.rows):,}", *numbers))
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(
            f"{cell:<{w}}" if i < 2 else f"{cell:>{w}}" for i, (cell, w) in enumerate(zip(line, widths, strict=True))
        )
        for line in lines
    )


def _csv(kind: type[Score] | type[Count], rows: Sequence[Any]) -> bytes:
    """Tidy rows as CSV; floats with all their digits, an empty field for what could not be computed."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(field.name for field in dataclasses.fields(kind))
    writer.writerows(dataclasses.astuple(row) for row in rows)
    return text.getvalue().encode()


def _page(
    scored: Sequence[Scored],
    drawn: Mapping[str, Drawn],
    notes: Sequence[str],
    resampling: Resampling,
    benchmark: Artifact,
    outputs: Sequence[Artifact],
) -> bytes:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    # Model texts are untrusted: everything is escaped, but for the figures, which we drew.
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["number"] = number
    by_task = {task: [each for each in scored if each.run.task == task] for task in ("complete", "decidability")}
    page = environment.get_template("report.html").render(
        models=sorted({each.run.identity.model for each in scored}),
        scored=scored,
        **by_task,
        figures={name: (_inline(figure.svg, figure.caption), figure.caption) for name, figure in drawn.items()},
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
    )
    return page.encode()


UNREAD = {
    "missing": "missing",
    "malformed": "malformed",
    "out_of_range": "out of range",
    "truncated": "cut off",
    "empty": "empty answer",
}
"""State of a field that could not be read -> its heading."""


def _inline(svg: str, caption: str) -> Any:
    """A figure's SVG as part of a page: no prolog, comments, metadata or namespaces, and as wide as its column."""
    from markupsafe import Markup, escape

    body = svg[svg.index("<svg") :]
    body = re.sub(r"<!--.*?-->|<metadata>.*?</metadata>", "", body, flags=re.S)
    opening, _, rest = body.partition(">")
    view = re.search(r'viewBox="[^"]*"', opening)
    return Markup(f'<svg {view[0] if view else ""} role="img" aria-label="{escape(caption)}">') + Markup(rest)


def _write_files(out: Path, files: Mapping[str, bytes]) -> tuple[Path, ...]:
    """Writes all files beside their places, then renames them, then removes what an earlier report left over."""
    out.mkdir(parents=True, exist_ok=True)
    partial = {name: out / f".{name}.partial-{os.getpid()}" for name in files}
    try:
        for name, content in files.items():
            with partial[name].open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
        for name, path in partial.items():
            path.replace(out / name)
    finally:
        for path in partial.values():
            path.unlink(missing_ok=True)
    for name in set(FILES) - files.keys():
        (out / name).unlink(missing_ok=True)
    return tuple(out / name for name in files)
