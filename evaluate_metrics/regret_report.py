"""The report on decisions with known posteriors: tables as CSV, P2's figures, one self-contained regret.html.

regret.csv has every slice of every system, differences.csv that of every adapter minus its base model, counts.csv what
could not be read, regret.json what it all was made from. Everything is rendered first and then renamed into place; the
same runs give the same bytes. The console's table of a system::

    system  config   format       decisions  parse  regret  belief loss  residual  belief err  accuracy
    base    weather  independent      1,800  0.998   0.112        0.064     0.048       0.171     0.803
    base    weather  two-turn         1,800  0.997   0.081        0.064     0.017       0.171     0.846
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from builders.artifacts import Artifact
from builders.errors import UserError
from evaluate_metrics.coherence.references import REGRET_UNITS
from evaluate_metrics.coherence.revealed import COST_SUM
from evaluate_metrics.estimates import Resampling
from evaluate_metrics.figures import Drawn
from evaluate_metrics.pages import aligned, csv_bytes, inline_svg, render_page, write_files
from evaluate_metrics.record import RECORD as OTHER_RECORD
from evaluate_metrics.record import REGRET_RECORD as RECORD
from evaluate_metrics.record import Record, digests
from evaluate_metrics.regret_examples import examples
from evaluate_metrics.regret_figures import FORMAT_WORDS, NAMES, PART_WORDS, THRESHOLDS, regret_figures
from evaluate_metrics.regret_runs import CONFIGS, DECIDED, load_answers
from evaluate_metrics.regret_scores import (
    HELD_OUT,
    PARTS,
    TRAINED,
    Count,
    Difference,
    Score,
    Scored,
    Settings,
    score_answers,
)

TABLES = ("regret.csv", "differences.csv", "counts.csv")
PAGE = "regret.html"
FILES = (*TABLES, RECORD, PAGE, *(f"{name}.{kind}" for name in NAMES for kind in ("svg", "png")))
"""Every file that the report may write; those that it does not are removed from an earlier one."""

CONSOLE = {
    "parse_rate": "parse",
    "total_regret": "regret",
    "belief_loss": "belief loss",
    "optimisation_residual": "residual",
    "belief_error": "belief err",
    "decision_accuracy": "accuracy",
}
"""measure -> its heading in the console's tables."""

UNREAD = ("missing", "malformed", "out_of_range", "truncated", "empty")


@dataclass(frozen=True, eq=False)
class RegretReport:
    """A written report: the folder, the files in it, the scored systems, and what was left out and why."""

    folder: Path
    files: tuple[Path, ...]
    scored: tuple[Scored, ...]
    notes: tuple[str, ...]

    @property
    def page(self) -> Path:
        """The HTML page."""
        return self.folder / PAGE

    @property
    def table(self) -> str:
        """The headline measures as an aligned table for the console, then the differences if any adapter answered."""
        scores = [_line(each, [each.value(measure) for measure in CONSOLE], "{:.3f}") for each in self.scored]
        blocks = [aligned([_heading("decisions"), *scores], 3)]
        compared = [each for each in self.scored if each.differences]
        if compared:
            lines = [_line(each, _changes(each), "{:+.3f}") for each in compared]
            blocks.append("minus the base model\n" + aligned([_heading("decisions"), *lines], 3))
        return "\n\n".join(blocks)


def write_regret_report(
    outputs: Sequence[Artifact], benchmark: Artifact, out: Path, settings: Settings | None = None
) -> RegretReport:
    """Scores every system of the outputs folders against the benchmark that it answers and writes the report to `out`.

    The order of the outputs folders does not matter.

    Raises:
        UserError: there is nothing to score, a run does not belong to the benchmark, two runs are the same system's, or
            `out` is no folder or holds another report.
    """
    settings = settings or Settings()
    if settings.n_resamples < 1:
        raise UserError(f"{settings.n_resamples} bootstrap resamples; give at least 1")
    if out.exists() and not out.is_dir():
        raise UserError(f"{out}: is a file; give a folder as --out")
    if (out / OTHER_RECORD).exists():
        raise UserError(f"{out}: holds another report, with a counts.csv of its own; choose another --out")
    outputs = sorted(outputs, key=lambda each: (each.id, each.revision, str(each.path)))
    answered, left_out = load_answers(outputs, benchmark)
    scored, not_compared = score_answers(answered, settings)
    notes = (*left_out, *not_compared)
    drawn = regret_figures(scored, settings)
    resampling = Resampling(settings.n_resamples, next(iter(REGRET_UNITS)), settings.seed)
    read = digests(benchmark.path), [digests(each.path) for each in outputs]
    files = {
        RECORD: Record(resampling, *read, trained=settings.trained).to_json(),
        "regret.csv": csv_bytes(Score, [score for each in scored for score in each.scores]),
        "differences.csv": csv_bytes(Difference, [each for one in scored for each in one.differences]),
        "counts.csv": csv_bytes(Count, [count for each in scored for count in each.count_rows()]),
        PAGE: _page(scored, drawn, notes, settings, benchmark, outputs),
    }
    for name, figure in drawn.items():
        files |= {f"{name}.svg": figure.svg.encode(), f"{name}.png": figure.png}
    return RegretReport(out, write_files(out, files, FILES), tuple(scored), notes)


def _heading(count: str) -> tuple[str, ...]:
    return "system", "config", "format", count, *CONSOLE.values()


def _line(scored: Scored, values: Sequence[float | None], shown: str) -> tuple[str, ...]:
    answered = scored.answered
    words = answered.title, answered.config, FORMAT_WORDS[answered.form], f"{len(answered.rows):,}"
    return *words, *("–" if value is None else shown.format(value) for value in values)


def _changes(scored: Scored) -> list[float | None]:
    found = [scored.difference(measure) for measure in CONSOLE]
    return [None if each is None else each.value for each in found]


def _page(
    scored: Sequence[Scored],
    drawn: Mapping[str, Drawn],
    notes: Sequence[str],
    settings: Settings,
    benchmark: Artifact,
    outputs: Sequence[Artifact],
) -> bytes:
    groups = {name: [each for each in scored if each.answered.config == name] for name in CONFIGS}
    return render_page(
        PAGE,
        models=sorted({each.answered.system.identity.model for each in scored}),
        scored=scored,
        groups={name: group for name, group in groups.items() if group},
        compared=_by_system([each for each in scored if each.differences]),
        figures={name: (inline_svg(figure.svg, figure.caption), figure.caption) for name, figure in drawn.items()},
        thresholds=THRESHOLDS,
        examples=examples(scored),
        notes=notes,
        settings=settings,
        cost_sum=COST_SUM,
        kinds=(TRAINED, HELD_OUT),
        parts=PARTS,
        part_words=PART_WORDS,
        format_words=FORMAT_WORDS,
        forms=DECIDED,
        unread=UNREAD,
        benchmark=benchmark,
        outputs=outputs,
    )


def _by_system(compared: Sequence[Scored]) -> dict[tuple[str, str, str], dict[str, Scored]]:
    """(config, split, adapter) -> its differences by format: a row of P2's table."""
    rows: dict[tuple[str, str, str], dict[str, Scored]] = {}
    for each in sorted(compared, key=lambda each: CONFIGS.index(each.answered.config)):
        place = each.answered.config, each.answered.split, each.answered.title
        rows.setdefault(place, {})[each.answered.form] = each
    return rows
