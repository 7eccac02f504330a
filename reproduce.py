"""Runs recipes end to end: build the benchmark, elicit beliefs, decide, score, report. Resumes where it stopped.

    python reproduce.py --recipe smollm2-135m-cpu
    python reproduce.py --recipe smollm2-135m-cpu --train full-hedge
    python reproduce.py --recipe qwen3.5-2b qwen3.5-4b --train all --on ray
    python reproduce.py --model path/to/model --limit 8
    python reproduce.py status --recipe qwen3.5-2b qwen3.5-4b --train all

With ``--train`` the adapters of a framing holdout are trained and answer as well, and the routed system is composed.
Everything lands in ``out/<name>/``: ``benchmark``, ``outputs``, ``sft``, ``adapters``, ``report``, each laid out like
its Hub repo.
"""

from __future__ import annotations

import argparse
import dataclasses
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from builders.artifacts import Artifact, resolve
from builders.cli import run
from builders.errors import UserError
from builders.holdouts import HOLDOUTS, Holdout, holdout
from builders.remote import local_folder, seen_folder
from builders.styles import ELICITED_WITH
from inference.engines import EngineSettings, add_engine_options, chosen_settings
from training.recipe import Generation, Recipe, load_recipe
from training.sft import Job

if TYPE_CHECKING:
    from builders.states import State
    from inference.generate import Run
    from training.sweep import Task

DEFAULT_RECIPE = "smollm2-135m-cpu"
DEFAULT_LIMIT = 4


@dataclass(frozen=True)
class Work:
    """What is done with one base model: its recipe, the engine that answers, the adapters to train, and where."""

    recipe: Recipe
    engine: EngineSettings
    holdouts: tuple[Holdout, ...]
    out: Path

    @property
    def jobs(self) -> list[Job]:
        """The adapters to train."""
        kinds = [kind.split("-") for kind in self.recipe.training.adapters]
        return [Job(task, style, each.name) for each in self.holdouts for task, style in kinds]

    def adapter(self, job: Job) -> Path:
        """The folder of an adapter."""
        return self.out / "adapters" / f"{self.recipe.name}-{job.config}"

    def settings(self, runs: Sequence[Run]) -> EngineSettings:
        """The engine, with room for the longest of the runs."""
        if self.engine.name != "vllm" or self.engine.context is not None:
            return self.engine
        room = self.recipe.generation.room((each.task, each.style) for each in runs)
        return dataclasses.replace(self.engine, context=room)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description="Builds the benchmark, elicits a model's beliefs, lets it decide, scores and reports. Run the same "
        "command again after an interruption: it goes on where it stopped.",
    )
    parser.add_argument(
        "command", nargs="?", choices=["run", "status"], default="run", help="status: only say how far everything is"
    )
    parser.add_argument(
        "--recipe", nargs="+", metavar="NAME", help=f"in training/recipes, or a YAML file (default: {DEFAULT_RECIPE})"
    )
    parser.add_argument(
        "--model", help="another model: folder, org/name[@revision], package:NAME, or a served name; decodes freely"
    )
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
    parser.add_argument(
        "--out", help="folder or URL for everything (default: out/<recipe or model>, with several recipes out)"
    )
    add_engine_options(parser)
    return parser


def planned(arguments: argparse.Namespace, folder: Path | None) -> list[Work]:
    """What the command line asks for, in ``folder`` or the place of the recipe's name.

    ``--model`` without ``--recipe`` takes the general defaults.

    Raises:
        UserError: there is no such recipe or holdout, or options do not go together.
    """
    names = list(dict.fromkeys(arguments.recipe or [DEFAULT_RECIPE]))
    if len(names) > 1 and arguments.model:
        raise UserError("--model replaces the model of one recipe; give one --recipe")
    if arguments.model and not arguments.recipe:
        name = re.sub(r"[^\w.-]", "-", Path(arguments.model).name)
        recipes = [Recipe(name, arguments.model, generation=Generation(limit=DEFAULT_LIMIT))]
    else:
        recipes = [load_recipe(name) for name in names]
        if arguments.model:
            name = f"{recipes[0].name}-{Path(arguments.model).name}"
            recipes = [dataclasses.replace(recipes[0], name=name, model=arguments.model, base_model="")]
    given = {name: getattr(arguments, name) for name in ("limit", "cells", "guided")}
    chosen = {name: value for name, value in given.items() if value is not None}
    works = []
    for recipe in recipes:
        generation = dataclasses.replace(recipe.generation, **chosen)
        own = EngineSettings(generation.engine, dtype=generation.dtype, batch_size=generation.batch_size)
        engine = chosen_settings(arguments, own)
        if engine.name == "openai" and arguments.train:
            raise UserError("--train needs the model itself; an endpoint only answers")
        out = (folder or Path("out")) / recipe.name if folder is None or len(recipes) > 1 else folder
        if out.is_file():
            raise UserError(f"{out}: is a file; give a folder as --out")
        recipe = dataclasses.replace(recipe, generation=generation)
        works.append(Work(recipe, engine, named_holdouts(arguments.train), out))
    return works


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


def answer(work: Work, benchmark: Artifact) -> Artifact:
    """All runs of the base model, generated by one engine; returns the model."""
    from inference.engines import load_engine, model_artifact
    from inference.generate import generate, prompt_rows

    runs = list(base_runs(work.recipe, work.jobs))
    rows = [prompt_rows(benchmark, each) for each in runs]
    model = model_artifact(work.engine, work.recipe.model)
    engine = load_engine(work.settings(runs), model, None, runs[0].sampling, work.recipe.generation.guided)
    print(f"  {model.id} ({model.revision}), {engine.version}", flush=True)
    for each, asked in zip(runs, rows, strict=True):
        generate(each, asked, model, engine, work.out / "outputs")
    engine.close()
    return model


def sets(work: Work, benchmark: Artifact, model: Artifact) -> list[Task]:
    """The SFT rows of the base model's beliefs; what is to be trained on them."""
    from builders.sft import Benchmark, write_sets
    from training.sweep import Task

    tasks, styles = (list(dict.fromkeys(getattr(job, name) for job in work.jobs)) for name in ("task", "style"))
    outputs = resolve(str(work.out / "outputs"), "dataset")
    written = write_sets(work.out / "sft", outputs, Benchmark(benchmark), tasks, styles, work.holdouts)
    print("\n".join(f"  {note}" for note in written.notes()), flush=True)
    data = resolve(str(work.out / "sft"), "dataset")
    return [Task(job, work.recipe, data, model, work.adapter(job)) for job in work.jobs]


def adapted_runs(recipe: Recipe, job: Job) -> tuple[Run, Run]:
    """An adapter's answers to its own task, free, once, and the second draw for its noise floor (P1 Appendix A)."""
    from inference.resample import PROMPTS

    run = planned_run(recipe.generation, job.task, job.style)
    run = dataclasses.replace(run, guided=False, repetitions=(1,))
    return run, run.resampled(PROMPTS)


def check_trainable(work: Work, benchmark: Artifact) -> None:
    """Finds out before the long work whether its later stages can run.

    Raises:
        UserError: the libraries for training are missing, or the slice is too small for a noise floor.
    """
    from inference.generate import prompt_rows
    from training.base import check_libraries

    check_libraries()
    for each in adapted_runs(work.recipe, work.jobs[0]):
        prompt_rows(benchmark, each)


def answer_adapted(work: Work, benchmark: Artifact, model: Artifact) -> None:
    """The answers of every adapter, and the routed system of every holdout."""
    from inference.adapters import read_adapter
    from inference.engines import load_engine
    from inference.generate import generate, prompt_rows

    for job in work.jobs:
        adapter = read_adapter(resolve(str(work.adapter(job)), "model"), model)
        runs = adapted_runs(work.recipe, job)
        engine = load_engine(work.settings(runs), model, adapter, runs[0].sampling, guided=False)
        for each in runs:
            rows = prompt_rows(benchmark, each)
            generate(dataclasses.replace(each, adapter=adapter), rows, model, engine, work.out / "outputs")
        engine.close()
    compose(work, benchmark)


def systems(work: Work) -> list[str]:
    """The holdouts that have a gate and a specialist."""
    trained = {(job.task, job.style, job.holdout) for job in work.jobs}
    pair = (("decidability", "direct"), ("complete", "cot"))
    return [each.name for each in work.holdouts if {(*kind, each.name) for kind in pair} <= trained]


def compose(work: Work, benchmark: Artifact) -> None:
    """The routed system of every holdout that has a gate and a specialist; the answers are there already."""
    from inference.route import System, route

    outputs = str(work.out / "outputs")
    for name in systems(work):
        route(System(outputs, outputs, holdout=name), benchmark, _no_engine, work.out / "outputs")


def _no_engine(model: Artifact, adapter: object) -> NoReturn:
    raise AssertionError("the specialist's answers are outputs, nothing is generated")


def states(works: Sequence[Work], benchmark: Artifact | None) -> Iterator[State]:
    """How far every part of the work is; without the benchmark it is not known how many prompts a run has."""
    from builders.states import State
    from inference.generate import prompt_rows
    from inference.states import run_state
    from training.sweep import adapter_state

    def state(work: Work, each: Run, config: str, stage: str) -> State:
        prompts = None if benchmark is None else len(prompt_rows(benchmark, each))
        return run_state(work.out / "outputs", config, each.split, prompts, stage)

    for work in works:
        for each in base_runs(work.recipe, work.jobs):
            yield state(work, each, each.config, "base")
        for job in work.jobs:
            there = (work.out / "sft" / job.config).is_dir()
            yield State("sft", job.config, "done" if there else "waiting")
        for job in work.jobs:
            yield adapter_state(work.adapter(job), work.recipe.training.steps(job.task, job.style))
        for job in work.jobs:
            for each in adapted_runs(work.recipe, job):
                ending = "-resample" if each.resample else ""
                yield state(work, each, f"sft-{job.style}-{job.task}-{job.holdout}{ending}", "adapted")
        for name in systems(work):
            yield run_state(work.out / "outputs", f"routed-{name}", "test", None, "routed")


def main() -> int:
    """Parses the command line and runs the pipeline, or says how far it is."""
    arguments = _parser().parse_args()
    if arguments.command == "status":
        return _status(arguments, None if arguments.out is None else seen_folder(arguments.out))
    if arguments.out is None:
        return _run(arguments, None)
    with local_folder(arguments.out) as folder:
        return _run(arguments, folder)


def _together(works: Sequence[Work], folder: Path | None) -> Path:
    """Where the benchmark and the report of all models lie."""
    return folder or (Path("out") if len(works) > 1 else works[0].out)


def _status(arguments: argparse.Namespace, folder: Path | None) -> int:
    from builders.states import state_table

    works = planned(arguments, folder)
    built = _together(works, folder) / "benchmark"
    there = arguments.benchmark or (built if built.is_dir() else None)
    print(state_table(list(states(works, resolve(str(there), "dataset") if there else None))))
    return 0


def _run(arguments: argparse.Namespace, folder: Path | None) -> int:
    works = planned(arguments, folder)
    together = _together(works, folder)
    start = time.monotonic()
    for work in works:
        _announce(work)
    _stage("benchmark", start)
    benchmark = build(arguments.benchmark, together)
    for work in works:
        if work.jobs:
            check_trainable(work, benchmark)
    _stage("answers of the base model", start)
    models = [answer(work, benchmark) for work in works]
    if arguments.train:
        from training.sweep import sweep

        _stage("adapters", start)
        tasks = [task for work, model in zip(works, models, strict=True) for task in sets(work, benchmark, model)]
        sweep(tasks, arguments.on)
        _stage("answers of the adapters", start)
        for work, model in zip(works, models, strict=True):
            answer_adapted(work, benchmark, model)
    _stage("report", start)
    from evaluate_metrics.report import write_report

    outputs = [resolve(str(work.out / "outputs"), "dataset") for work in works]
    report = write_report(outputs, benchmark, together / "report")
    print(f"\n{report.table}\n")
    for note in report.notes:
        print(f"note: {note}")
    print(f"{(time.monotonic() - start) / 60:.1f} minutes; open {report.page}")
    return 0


def _announce(work: Work) -> None:
    generation = work.recipe.generation
    cases = f"{generation.limit} test cases" if generation.limit else "all 80 test cases"
    items = f", {generation.cells} items of each" if generation.cells else ""
    trained = f", {len(work.jobs)} adapters" if work.jobs else ""
    decoding = "guided" if generation.guided else "free"
    print(f"{work.recipe.name}: {cases}{items}, {decoding} decoding{trained}", flush=True)


def _stage(name: str, start: float) -> None:
    print(f"{(time.monotonic() - start) / 60:5.1f} min  {name}", flush=True)


if __name__ == "__main__":
    run(main)
