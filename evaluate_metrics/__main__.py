"""Commands of the scoring stage: ``python -m evaluate_metrics report``, ``regret`` and ``space``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from builders.artifacts import resolve
from builders.cli import run
from evaluate_metrics.beliefs import WHOSE
from evaluate_metrics.coherence.references import UNITS
from evaluate_metrics.regret_report import RegretReport, write_regret_report
from evaluate_metrics.regret_scores import Settings, trained_losses
from evaluate_metrics.report import Report, write_report
from evaluate_metrics.space import write_space


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m evaluate_metrics", description="Outputs -> measures, figures.")
    commands = parser.add_subparsers(dest="command", required=True)
    report = commands.add_parser(
        "report",
        help="score outputs and write tables, figures and a page",
        description="Scores every run of the outputs folders and writes measures.csv, counts.csv, the figures (PNG and "
        "SVG) and a self-contained report.html; with adapters' or routed runs also systems.csv, the trained systems "
        "pooled over the framing holdouts, and points.csv, every point of their figures. Reference beliefs come from "
        "the base model's elicitation runs among the outputs; the noise floor from prompts that were answered twice.",
    )
    report.add_argument("--outputs", nargs="+", required=True, metavar="ID", help="folders or org/name[@revision]")
    report.add_argument("--benchmark", required=True, metavar="ID", help="the benchmark that the outputs answer")
    report.add_argument("--out", type=Path, required=True, metavar="DIR", help="the report's folder")
    report.add_argument("--n-resamples", type=int, default=1000, metavar="N", help="bootstrap (default: %(default)s)")
    report.add_argument("--unit", choices=list(UNITS), default="case", help="what is resampled (default: %(default)s)")
    report.add_argument(
        "--reference", choices=WHOSE, default="base",
        help="the beliefs that an adapter's are compared with: its base model's, or its own (default: %(default)s)",
    )  # fmt: skip
    report.add_argument("--seed", type=int, default=124, help="of the bootstrap (default: %(default)s)")
    regret = commands.add_parser(
        "regret",
        help="score decisions whose posterior is known",
        description="Pairs every decision on the benchmark with known posteriors with the same system's belief and "
        "writes regret.csv (regret and its two parts by task, format, number of features and threshold), "
        "differences.csv (each adapter minus its base model, paired), counts.csv, the figures (PNG and SVG) and a "
        "self-contained regret.html.",
    )
    regret.add_argument("--outputs", nargs="+", required=True, metavar="ID", help="folders or org/name[@revision]")
    regret.add_argument("--benchmark", required=True, metavar="ID", help="the benchmark that the outputs answer")
    regret.add_argument("--out", type=Path, required=True, metavar="DIR", help="the report's folder")
    regret.add_argument("--n-resamples", type=int, default=1000, metavar="N", help="bootstrap (default: %(default)s)")
    regret.add_argument("--seed", type=int, default=124, help="of the bootstrap (default: %(default)s)")
    regret.add_argument(
        "--trained-thresholds", metavar="T,T,...",
        help="the thresholds that adapters were trained on, 0.2,0.4,0.6,0.8 for instance: these and the held-out ones "
        "are then also scored apart",
    )  # fmt: skip
    space = commands.add_parser(
        "space",
        help="write the metric's Space",
        description="Writes the folder of the metric's Space: the modules that evaluate.load reads, the card, the "
        "page. An earlier one is replaced. Prints the script's path, which evaluate.load takes as well.",
    )
    space.add_argument("--out", type=Path, required=True, metavar="DIR", help="the folder, best named coherence")
    return parser


def main() -> int:
    """Parses the command line, writes a report and prints its table, or writes the metric's Space."""
    a = _parser().parse_args()
    if a.command == "space":
        print(write_space(a.out))
        return 0
    outputs = [resolve(reference, "dataset") for reference in a.outputs]
    benchmark = resolve(a.benchmark, "dataset")
    report: Report | RegretReport
    if a.command == "regret":
        trained = None if a.trained_thresholds is None else trained_losses(a.trained_thresholds)
        report = write_regret_report(outputs, benchmark, a.out, Settings(a.n_resamples, a.seed, trained))
    else:
        report = write_report(outputs, benchmark, a.out, a.n_resamples, a.unit, a.seed, a.reference)
    print(report.table)
    for note in report.notes:
        print(f"note: {note}", file=sys.stderr)
    print(report.page)
    return 0


if __name__ == "__main__":
    run(main)
