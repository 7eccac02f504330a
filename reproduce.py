"""Runs a recipe end to end: build the benchmark, elicit beliefs, decide, score, report. Resumes where it stopped.

    python reproduce.py --recipe smollm2-135m-cpu
    python reproduce.py --recipe smollm2-135m-cpu --train full-hedge
    python reproduce.py --model path/to/model --limit 8

With ``--train`` the adapters of a framing holdout are trained and answer as well, and the routed system is composed.
Everything lands in ``out/<name>/``: ``benchmark``, ``outputs``, ``sft``, ``adapters``, ``report``, each laid out like
its Hub repo.
"""

from __future__ import annotations

import argparse
import dataclasses
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from builders.artifacts import Artifact, resolve
from builders.cli import run
from builders.errors import UserError
from builders.holdouts import HOLDOUTS, Holdout, holdout
from builders.styles import ELICITED_WITH
from training.recipe import Generation, Recipe, load_recipe
from training.sft import Job

if TYPE_CHECKING:
    from inference.generate import Run

DEFAULT_RECIPE = "smollm2-135m-cpu"
DEFAULT_LIMIT = 4


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description="Builds the benchmark, elicits a model's beliefs, lets it decide, scores and reports. Run the same "
        "command again after an interruption: it goes on where it stopped.",
    )
    parser.add_argument("--recipe", help=f"a recipe in training/recipes or a YAML file (default: {DEFAULT_RECIPE})")
    parser.add_argument("--model", help="another model: folder, org/name[@revision] or package:NAME; decodes freely")
    parser.add_argument(
        "--train",
        nargs="+",
        metavar="HOLDOUT",
        help="also train and evaluate the recipe's adapters of these framing holdouts, e.g. full-hedge, or all",
    )
    parser.add_argument("--limit", type=int, metavar="N", help="cases of the test split (default: the recipe's)")
    parser.add_argument("--cells", type=int, metavar="N", help="framing-utility items of a case (default: all 40)")
    parser.add_argument("--guided", action=argparse.BooleanOptionalAction, help="constrain answers to the final block")
    parser.add_argument("--benchmark", help="a published benchmark, by id or folder (default: build it)")
    parser.add_argument("--out", type=Path, help="folder for everything (default: out/<recipe or model>)")
    return parser


def settings(arguments: argparse.Namespace) -> Recipe:
    """The recipe that the command line asks for; ``--model`` without ``--recipe`` takes the general defaults.

    Raises:
        UserError: there is no such recipe.
    """
    if arguments.model and not arguments.recipe:
        recipe = Recipe(Path(arguments.model).name, arguments.model, Generation(limit=DEFAULT_LIMIT))
    else:
        recipe = load_recipe(arguments.recipe or DEFAULT_RECIPE)
        if arguments.model:
            recipe = dataclasses.replace(
                recipe, name=f"{recipe.name}-{Path(arguments.model).name}", model=arguments.model, base_model=""
            )
    names = ("limit", "cells", "guided")
    chosen = {name: getattr(arguments, name) for name in names if getattr(arguments, name) is not None}
    return dataclasses.replace(recipe, generation=dataclasses.replace(recipe.generation, **chosen))


def named_holdouts(names: Sequence[str] | None) -> tuple[Holdout, ...]:
    """The framing holdouts to train, none without ``--train``.

    Raises:
        UserError: there is no such holdout.
    """
    return HOLDOUTS if names == ["all"] else tuple(holdout(name) for name in dict.fromkeys(names or ()))


def planned_run(generation: Generation, task: str, style: str, split: str = "test") -> Run:
    """One generation run with the recipe's settings; of the train and validation splits, the elicited cases."""
    from inference.generate import Run
    from inference.requests import Sampling

    sampling = Sampling(generation.temperature, generation.top_p, generation.budget(task, style), generation.seed)
    limit = generation.limit if split == "test" else generation.elicited.get(split)
    return Run(task, style, split, limit=limit, cells=generation.cells, guided=generation.guided, sampling=sampling)


def base_runs(recipe: Recipe, jobs: Sequence[Job]) -> Iterator[Run]:
    """The base model's runs: the beliefs that its styles and the SFT rows need, then both decision tasks."""
    generation = recipe.generation
    styles = dict.fromkeys((*generation.styles, *(job.style for job in jobs)))
    elicited = dict.fromkeys(ELICITED_WITH[style] for style in styles)
    splits = ("train", "validation", "test") if jobs else ("test",)
    for split in splits:
        yield from (planned_run(generation, "elicitation", style, split) for style in elicited)
    yield from (planned_run(generation, task, style) for style in styles for task in ("complete", "decidability"))


def build(benchmark: str | None, out: Path) -> Artifact:
    """The benchmark to answer: the published one that was named, or a fresh build."""
    if benchmark:
        return resolve(benchmark, "dataset")
    from builders.benchmark import write_benchmark
    from builders.cases import frozen_cases

    files = write_benchmark(out / "benchmark", frozen_cases())
    print(f"  {sum(file.rows for file in files):,} rows in {out / 'benchmark'}")
    return resolve(str(out / "benchmark"), "dataset")


def answer(recipe: Recipe, jobs: Sequence[Job], benchmark: Artifact, out: Path) -> Artifact:
    """All runs of the base model, generated by one engine; returns the model."""
    from inference.generate import generate, prompt_rows
    from inference.transformers_engine import TransformersEngine

    planned = [(each, prompt_rows(benchmark, each)) for each in base_runs(recipe, jobs)]
    model = resolve(recipe.model, "model")
    engine = TransformersEngine(model.path, recipe.generation.dtype, recipe.generation.batch_size)
    print(f"  {model.id} ({model.revision}), {engine.version}", flush=True)
    for each, rows in planned:
        generate(each, rows, model, engine, out / "outputs")
    return model


def train_adapters(
    recipe: Recipe, jobs: Sequence[Job], holdouts: Sequence[Holdout], benchmark: Artifact, model: Artifact, out: Path
) -> list[Path]:
    """The SFT rows of the base model's beliefs, and the adapter of every job; returns the adapters' folders."""
    from builders.sft import Benchmark, write_sets
    from training.sft import train

    tasks, styles = (list(dict.fromkeys(getattr(job, name) for job in jobs)) for name in ("task", "style"))
    outputs = resolve(str(out / "outputs"), "dataset")
    sets = write_sets(out / "sft", outputs, Benchmark(benchmark), tasks, styles, holdouts)
    print("\n".join(f"  {note}" for note in sets.notes()), flush=True)
    data = resolve(str(out / "sft"), "dataset")
    folders = []
    for job in jobs:
        print(f"  {job.config}", flush=True)
        folders.append(train(job, recipe, data, model, out / "adapters" / f"{recipe.name}-{job.config}"))
    return folders


def adapted_runs(recipe: Recipe, job: Job) -> tuple[Run, Run]:
    """An adapter's answers to its own task, free, once, and the second draw for its noise floor (P1 Appendix A)."""
    from inference.resample import PROMPTS

    run = planned_run(recipe.generation, job.task, job.style)
    run = dataclasses.replace(run, guided=False, repetitions=(1,))
    return run, run.resampled(PROMPTS)


def check_trainable(recipe: Recipe, jobs: Sequence[Job], benchmark: Artifact) -> None:
    """Finds out before the long work whether its later stages can run.

    Raises:
        UserError: the libraries for training are missing, or the slice is too small for a noise floor.
    """
    from inference.generate import prompt_rows
    from training.base import check_libraries

    check_libraries()
    for each in adapted_runs(recipe, jobs[0]):
        prompt_rows(benchmark, each)


def answer_adapted(
    recipe: Recipe, jobs: Sequence[Job], folders: Sequence[Path], benchmark: Artifact, model: Artifact, out: Path
) -> None:
    """The answers of every adapter."""
    from inference.adapters import read_adapter
    from inference.generate import generate, prompt_rows
    from inference.transformers_engine import TransformersEngine

    for job, folder in zip(jobs, folders, strict=True):
        adapter = read_adapter(resolve(str(folder), "model"), model)
        engine = TransformersEngine(model.path, recipe.generation.dtype, recipe.generation.batch_size, adapter.path)
        for each in adapted_runs(recipe, job):
            rows = prompt_rows(benchmark, each)
            generate(dataclasses.replace(each, adapter=adapter), rows, model, engine, out / "outputs")


def compose(jobs: Sequence[Job], holdouts: Sequence[Holdout], benchmark: Artifact, out: Path) -> None:
    """The routed system of every holdout that has a gate and a specialist; the answers are there already."""
    from inference.route import System, route

    trained = {(job.task, job.style, job.holdout) for job in jobs}
    outputs = str(out / "outputs")
    for each in holdouts:
        if {("decidability", "direct", each.name), ("complete", "cot", each.name)} <= trained:
            route(System(outputs, outputs, holdout=each.name), benchmark, _no_engine, out / "outputs")


def _no_engine(model: Artifact, adapter: object) -> NoReturn:
    raise AssertionError("the specialist's answers are outputs, nothing is generated")


def main() -> int:
    """Parses the command line and runs the pipeline."""
    arguments = _parser().parse_args()
    recipe, holdouts = settings(arguments), named_holdouts(arguments.train)
    jobs = [Job(*kind.split("-"), each.name) for each in holdouts for kind in recipe.training.adapters]
    out = arguments.out or Path("out") / recipe.name
    if out.is_file():
        raise UserError(f"{out}: is a file; give a folder as --out")
    start = time.monotonic()
    _announce(recipe, jobs)
    _stage("benchmark", start)
    benchmark = build(arguments.benchmark, out)
    if jobs:
        check_trainable(recipe, jobs, benchmark)
    _stage("answers of the base model", start)
    model = answer(recipe, jobs, benchmark, out)
    if jobs:
        _stage("adapters", start)
        folders = train_adapters(recipe, jobs, holdouts, benchmark, model, out)
        _stage("answers of the adapters", start)
        answer_adapted(recipe, jobs, folders, benchmark, model, out)
        compose(jobs, holdouts, benchmark, out)
    _stage("report", start)
    from evaluate_metrics.report import write_report

    report = write_report([resolve(str(out / "outputs"), "dataset")], benchmark, out / "report")
    print(f"\n{report.table}\n")
    for note in report.notes:
        print(f"note: {note}")
    print(f"{(time.monotonic() - start) / 60:.1f} minutes; open {report.page}")
    return 0


def _announce(recipe: Recipe, jobs: Sequence[Job]) -> None:
    generation = recipe.generation
    cases = f"{generation.limit} test cases" if generation.limit else "all 80 test cases"
    items = f", {generation.cells} items of each" if generation.cells else ""
    trained = f", {len(jobs)} adapters" if jobs else ""
    print(f"{recipe.name}: {cases}{items}, {'guided' if generation.guided else 'free'} decoding{trained}", flush=True)


def _stage(name: str, start: float) -> None:
    print(f"{(time.monotonic() - start) / 60:5.1f} min  {name}", flush=True)


if __name__ == "__main__":
    run(main)
