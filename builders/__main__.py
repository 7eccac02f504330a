"""Commands of the data stage: ``python -m builders benchmark``, ``posterior``, ``sft`` and ``cases``."""

from __future__ import annotations

import argparse
import hashlib
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from builders.cli import run


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m builders", description="Tables of real rows -> cases -> prompts -> SFT rows."
    )
    commands = parser.add_subparsers(dest="command", required=True)

    benchmark = commands.add_parser(
        "benchmark",
        help="write the benchmark as a folder in Hub layout",
        description="Writes the benchmark (cases, elicitation, complete, decidability) as a folder that "
        "load_dataset(DIR, CONFIG) loads. Every prompt passes the construction check.",
    )
    benchmark.add_argument("--out", type=Path, default=Path("out/benchmark"), help="the folder (default: %(default)s)")
    benchmark.add_argument("--tables", type=Path, help="derive the cases from the source tables in this folder")
    benchmark.add_argument("--configs", nargs="+", metavar="CONFIG", help="only these configs (default: all four)")

    _add_posterior(commands)
    _add_sft(commands)
    cases = commands.add_parser(
        "cases",
        help="derive the 200 cases from the source tables and compare them with the frozen file",
        description="Derives the cases from the source tables, downloaded from their original archives or taken from "
        "--tables DIR, and compares them with the file that ships. Exit code 1 if they differ.",
    )
    cases.add_argument("--tables", type=Path, help="a folder with the source tables, gzipped or not")
    cases.add_argument("--out", type=Path, help="also write the derived files into this folder")
    return parser


def _add_posterior(commands: Any) -> None:
    posterior = commands.add_parser(
        "posterior",
        help="write the benchmark with known posteriors as a folder in Hub layout",
        description="Writes posterior-decisions as a folder that load_dataset(DIR, CONFIG) loads: synthetic records, "
        "hail forecasts and clinical notes, each with the exact posterior of its evidence, as belief, independent and "
        "two-turn prompts under nine pairs of costs. Every prompt is read back before it is written. Needs no source: "
        "the states drawn from the HailFinder network ship with the package, SimSUM's parameters are part of it.",
    )
    posterior.add_argument("--out", type=Path, default=Path("out/posterior"), help="the folder (default: %(default)s)")
    posterior.add_argument(
        "--configs", nargs="+", metavar="CONFIG", help="only these of synthetic, weather and clinical (default: all)"
    )
    posterior.add_argument(
        "--tables",
        type=Path,
        metavar="DIR",
        help="first derive the weather instances from hailfinder.bif in this folder, gzipped or not; anything but the "
        "instances that ship is an error",
    )
    posterior.add_argument(
        "--simsum-notes",
        metavar="PATH_OR_URL",
        help="SimSUM.csv, for the authors' notes in place of ours in clinical; they carry no licence, so such a build "
        "is for your own use",
    )


def _add_sft(commands: Any) -> None:
    sft = commands.add_parser(
        "sft",
        help="write the SFT sets of a base model from its own elicited beliefs",
        description="Writes one config TASK-STYLE-HOLDOUT for each choice, with splits train and validation. Every "
        "target is read back with the published parser and must score perfectly. Sets of the same beliefs that DIR "
        "already holds are kept.",
    )
    sft.add_argument(
        "--beliefs", required=True, metavar="ID", help="outputs with the base model's elicitations: id or folder"
    )
    sft.add_argument(
        "--benchmark", metavar="ID", help="a published benchmark (default: that of the package's own cases)"
    )
    sft.add_argument("--task", required=True, help="complete, decidability or all")
    sft.add_argument("--style", required=True, help="direct, cot or all")
    sft.add_argument("--holdout", required=True, metavar="NAME", help="a framing holdout, e.g. full-hedge, or all")
    sft.add_argument(
        "--config", nargs="+", default=[], metavar="NAME", help="the elicitation run to take, if several qualify"
    )
    sft.add_argument("--out", type=Path, required=True, help="the folder")


def _benchmark(out: Path, tables: Path | None, configs: list[str] | None) -> int:
    from builders.benchmark import write_benchmark
    from builders.cases import derive_all, frozen_cases
    from builders.errors import UserError
    from builders.schema import BENCHMARK

    if unknown := set(configs or ()) - BENCHMARK.keys():
        raise UserError(f"no config {min(unknown)!r}; there are {', '.join(BENCHMARK)}")
    start = time.perf_counter()
    cases = [json.loads(line) for line in derive_all(tables).splitlines()] if tables else frozen_cases()
    files = write_benchmark(out, cases, tuple(config for config in BENCHMARK if config in (configs or BENCHMARK)))
    for file in files:
        print(f"  {file.config:13}{file.split:11}{file.rows:8,} rows {file.file_bytes / 1e6:7.2f} MB")
    rows = sum(file.rows for file in files if file.config != "cases")
    print(f"{out}: {rows:,} prompts, each checked against its row, in {time.perf_counter() - start:.1f} s")
    return 0


def _posterior(out: Path, configs: list[str] | None, tables: Path | None, simsum_notes: str | None) -> int:
    from builders.errors import UserError
    from builders.posterior import weather
    from builders.posterior.benchmark import write_posterior
    from builders.posterior.simsum_notes import LICENCE_NOTE
    from builders.schema import POSTERIOR

    if unknown := set(configs or ()) - POSTERIOR.keys():
        raise UserError(f"no config {min(unknown)!r}; there are {', '.join(POSTERIOR)}")
    chosen = tuple(config for config in POSTERIOR if config in (configs or POSTERIOR))
    if simsum_notes and "clinical" not in chosen:
        raise UserError("--simsum-notes is for the config clinical, which --configs leaves out")
    start = time.perf_counter()
    if tables:
        weather.check_frozen(tables)
        print(f"  {weather.FROZEN.name}: derived again from {tables}, identical")
    if simsum_notes:
        print(f"  note: {LICENCE_NOTE}")
    files = write_posterior(out, chosen, simsum_notes, tell=lambda line: print(f"  {line}", flush=True))
    rows, size = sum(file.rows for file in files), sum(file.file_bytes for file in files) / 1e6
    print(f"{out}: {rows:,} prompts, each read back, {size:.1f} MB, in {time.perf_counter() - start:.1f} s")
    return 0


def _sft(beliefs: str, benchmark: str | None, task: str, style: str, holdout: str, config: list[str], out: Path) -> int:
    from builders.artifacts import resolve
    from builders.holdouts import HOLDOUTS
    from builders.holdouts import holdout as named
    from builders.sft import SFT_TASKS, Benchmark, write_sets
    from builders.styles import ELICITATION_STYLES

    tasks, styles = _chosen("task", task, SFT_TASKS), _chosen("style", style, ELICITATION_STYLES)
    holdouts = HOLDOUTS if holdout == "all" else (named(holdout),)
    start = time.perf_counter()
    prompts = Benchmark(resolve(benchmark, "dataset") if benchmark else None)
    sets = write_sets(out, resolve(beliefs, "dataset"), prompts, tasks, styles, holdouts, config)
    for file in sets.files:
        print(f"  {file.config:48}{file.split:11}{file.rows:8,} rows {file.file_bytes / 1e6:7.2f} MB")
    for line in sets.notes():
        print(f"  {line}")
    rows, configs = sum(file.rows for file in sets.files), len({file.config for file in sets.files})
    kept = f", {len(sets.kept)} earlier sets kept" if sets.kept else ""
    seconds = time.perf_counter() - start
    print(f"{out}: {rows:,} rows in {configs} sets, each target scored perfect{kept}, in {seconds:.1f} s")
    return 0


def _chosen(option: str, value: str, known: tuple[str, ...]) -> tuple[str, ...]:
    from builders.errors import UserError

    if value not in (*known, "all"):
        raise UserError(f"no {option} {value!r} to train; there are {', '.join(known)}, or all")
    return known if value == "all" else (value,)


def _cases(tables: Path | None, out: Path | None) -> int:
    from builders.cases import FROZEN, derive_all
    from builders.domains import DOMAINS
    from builders.provenance import PROVENANCE, provenance

    cases = derive_all(tables)
    derived = {FROZEN: cases, PROVENANCE: provenance(DOMAINS, cases)}
    if out:
        out.mkdir(parents=True, exist_ok=True)
        for path, text in derived.items():
            (out / path.name).write_text(text, encoding="utf-8")
    differing = [path for path, text in derived.items() if not path.is_file() or path.read_text("utf-8") != text]
    if not differing:
        digest = hashlib.sha256(cases.encode()).hexdigest()
        print(f"identical: {cases.count(chr(10))} cases, sha256 {digest}")
        return 0
    for path in differing:
        print(f"differs from {path.name}{_first_difference(path, derived[path])}")
    return 1


def _first_difference(path: Path, derived: str) -> str:
    if not path.is_file():
        return ", which is not there"
    pairs = zip(derived.splitlines(), path.read_text("utf-8").splitlines(), strict=False)
    changed = [new for new, old in pairs if new != old]
    return f" in {len(changed)} lines, first: {changed[0][:100]}" if changed else " in length"


def main() -> int:
    """Parses the command line and runs the command."""
    arguments = vars(_parser().parse_args())
    commands: dict[str, Callable[..., int]] = {
        "benchmark": _benchmark,
        "cases": _cases,
        "posterior": _posterior,
        "sft": _sft,
    }
    return commands[arguments.pop("command")](**arguments)


if __name__ == "__main__":
    run(main)
