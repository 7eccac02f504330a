"""Runs recipes end to end: build the benchmark, elicit beliefs, decide, score, report. Resumes where it stopped.

    python reproduce.py --recipe smollm2-135m-cpu
    python reproduce.py --recipe smollm2-135m-cpu --train full-hedge
    python reproduce.py --recipe qwen3-8b-posterior --train belief sequential
    python reproduce.py --recipe qwen3.5-2b qwen3.5-4b --train all --on ray
    python reproduce.py --model path/to/model --limit 8
    python reproduce.py status --recipe qwen3.5-2b qwen3.5-4b --train all
    python reproduce.py --from-hub acme@v1.0.0

With ``--train`` the adapters of a framing holdout are trained and answer as well, and the routed system is composed. A
recipe with a section ``grpo`` is the second paper's: its benchmark has known posteriors, ``--train`` names
interventions, the report decomposes regret. Everything lands in ``out/<name>/``: ``benchmark`` or ``posterior``,
``outputs``, ``sft``, ``adapters``, ``report``, each laid out like its Hub repo. With ``--from-hub`` published stages
are the beginning, and the end is a comparison with the published tables.
"""

from __future__ import annotations

import argparse
import dataclasses
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from builders.artifacts import Artifact, load_rows, resolve
from builders.cli import run
from builders.errors import UserError
from builders.generation import Generation
from builders.holdouts import HOLDOUTS, holdout
from builders.hub.pull import Source, source, take_outputs
from builders.packaged import PREFIX, packaged_id
from builders.posterior.interventions import INTERVENTIONS
from builders.remote import local_folder, seen_folder
from builders.repos import BENCHMARK, POSTERIOR, adapter_name, outputs_name
from builders.schema import POSTERIOR as KNOWN
from inference.engines import EngineSettings, add_engine_options, chosen_settings
from inference.plan import adapted_runs, base_runs, posterior_runs
from training.grpo import Job as GrpoJob
from training.recipe import Recipe, load_recipe, write_recipe
from training.sft import Job as SftJob

if TYPE_CHECKING:
    from builders.states import State
    from evaluate_metrics.regret_report import RegretReport
    from evaluate_metrics.report import Report
    from inference.generate import Run
    from training.sweep import Task

DEFAULT_RECIPE = "smollm2-135m-cpu"
DEFAULT_LIMIT = 4
Job: TypeAlias = SftJob | GrpoJob
AnyReport: TypeAlias = "Report | RegretReport"
STAGES = ("cases", "beliefs", "adapters", "outputs")
"""What a run may go on from, when it is published: everything after it is computed again."""


@dataclass(frozen=True)
class Work:
    """What is done with one base model: its recipe, the engine that answers, what is trained, and where.

    ``trained`` names framing holdouts, or interventions of a recipe with known posteriors. ``published`` are the
    outputs on the Hub that a run from there goes on from, or is compared with.
    """

    recipe: Recipe
    engine: EngineSettings
    trained: tuple[str, ...]
    out: Path
    published: Artifact | None = None

    @property
    def jobs(self) -> list[Job]:
        """The adapters to train."""
        if grpo := self.recipe.grpo:
            return [GrpoJob(task, each, grpo.losses) for each in self.trained for task in grpo.tasks]
        kinds = [kind.split("-") for kind in self.recipe.training.adapters]
        return [SftJob(task, style, each) for each in self.trained for task, style in kinds]

    def adapter(self, job: Job) -> Path:
        """The folder of an adapter."""
        return self.out / "adapters" / f"{self.recipe.name}-{job.config}"

    def base_runs(self) -> Iterator[Run]:
        """What the base model answers."""
        if self.recipe.grpo:
            return posterior_runs(self.recipe.generation, tuple(KNOWN))
        return base_runs(self.recipe.generation, [job.style for job in self.jobs if isinstance(job, SftJob)])

    def adapted_runs(self, job: Job) -> list[Run]:
        """What an adapter answers: its own task, in P1 again for the noise floor, in P2 in all formats."""
        if isinstance(job, GrpoJob):
            return list(posterior_runs(self.recipe.generation, [job.task]))
        return list(adapted_runs(self.recipe.generation, job.task, job.style))

    def steps(self, job: Job) -> int | None:
        """Optimizer steps of an adapter, None for whole epochs."""
        if isinstance(job, GrpoJob):
            return self.recipe.grpo.max_steps.get(job.task) if self.recipe.grpo else None
        return self.recipe.training.steps(job.task, job.style)

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
        metavar="NAME",
        help="also train and evaluate the recipe's adapters of these framing holdouts, e.g. full-hedge, or "
        "interventions, e.g. belief; or all",
    )
    parser.add_argument("--limit", type=int, metavar="N", help="test cases, or instances (default: the recipe's)")
    parser.add_argument(
        "--cells", type=int, metavar="N", help="items of a case: framings and costs; or losses (default: the recipe's)"
    )
    parser.add_argument("--guided", action=argparse.BooleanOptionalAction, help="constrain answers to the final block")
    parser.add_argument("--benchmark", help="a published benchmark, by id or folder (default: build it)")
    parser.add_argument(
        "--from-hub", metavar="ORG[@REV]", help="take what is published there, compute the rest, compare the tables"
    )
    parser.add_argument(
        "--from", dest="stage", choices=STAGES, default="outputs",
        help="with --from-hub: the last stage that is taken as published (default: outputs, only scoring is repeated)",
    )  # fmt: skip
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
    if len({recipe.grpo is None for recipe in recipes}) > 1:
        raise UserError("these recipes are of two benchmarks; give those of one, the other in a run of its own")
    root = Path("out") / f"from-{source(arguments.from_hub).org}" if arguments.from_hub else Path("out")
    works = []
    for recipe in recipes:
        out = (folder or root) / recipe.name if folder is None or len(recipes) > 1 else folder
        if out.is_file():
            raise UserError(f"{out}: is a file; give a folder as --out")
        works.append(planned_work(recipe, arguments, named(arguments.train, recipe), out))
    return works


def planned_work(recipe: Recipe, arguments: argparse.Namespace, trained: tuple[str, ...], out: Path) -> Work:
    """The work of one recipe, with what the command line says otherwise."""
    given = {name: getattr(arguments, name) for name in ("limit", "cells", "guided")}
    chosen = {name: value for name, value in given.items() if value is not None}
    generation = dataclasses.replace(recipe.generation, **chosen)
    own = EngineSettings(generation.engine, dtype=generation.dtype, batch_size=generation.batch_size)
    engine = chosen_settings(arguments, own)
    if engine.name == "openai" and trained:
        raise UserError("--train needs the model itself; an endpoint only answers")
    return Work(dataclasses.replace(recipe, generation=generation), engine, trained, out)


def published_work(work: Work, hub: Source, arguments: argparse.Namespace) -> Work:
    """The work with its outputs on the Hub; recipe and what is trained are theirs unless the command line has others.

    Raises:
        UserError: the outputs of the recipe's model are not published there.
    """
    known = work.recipe.grpo is not None
    published = hub.pull(outputs_name(model_id(work.recipe.model), known), "dataset")
    recipe, there = work.recipe, published.path / "recipe.yaml"
    if there.is_file():
        # Its name becomes part of a folder's here, and whoever published it chose it.
        recipe = dataclasses.replace(load_recipe(str(there)), name=work.recipe.name)
        if arguments.model:
            recipe = dataclasses.replace(recipe, model=arguments.model)
    configs = [path.name for path in published.path.iterdir() if path.is_dir()]
    pattern = r"grpo-(?:guided-)?[a-z]+-{}-" if known else r"sft-.*{}"
    names = INTERVENTIONS if known else [each.name for each in HOLDOUTS]
    trained = tuple(each for each in names if any(re.match(pattern.format(each), name) for name in configs))
    again = planned_work(recipe, arguments, work.trained or trained, work.out)
    return dataclasses.replace(again, published=published)


def model_id(reference: str) -> str:
    """The id that outputs and adapters record for the model of a recipe."""
    return packaged_id(reference) if reference.startswith(PREFIX) else reference.partition("@")[0]


def named(names: Sequence[str] | None, recipe: Recipe) -> tuple[str, ...]:
    """The framing holdouts or interventions to train, none without ``--train``.

    Raises:
        UserError: there is no such one.
    """
    known = INTERVENTIONS if recipe.grpo else tuple(each.name for each in HOLDOUTS)
    if names == ["all"]:
        return known
    if unknown := [name for name in names or () if name not in known]:
        what = "intervention" if recipe.grpo else "framing holdout"
        raise UserError(f"no {what} {unknown[0]!r}; there are {', '.join(known)}")
    return tuple(dict.fromkeys(names or ()))


def build(works: Sequence[Work], arguments: argparse.Namespace, hub: Source | None, out: Path) -> Artifact:
    """The benchmark to answer: the published one that was named, or a fresh build, of published cases if need be."""
    from builders.benchmark import write_benchmark
    from builders.cases import frozen_cases, in_order
    from builders.posterior.benchmark import write_posterior

    if arguments.benchmark:
        return resolve(arguments.benchmark, "dataset")
    known = works[0].recipe.grpo is not None
    if hub and arguments.stage != "cases":
        return hub.pull(POSTERIOR if known else BENCHMARK, "dataset")
    folder = out / ("posterior" if known else "benchmark")
    if known:
        files = write_posterior(folder)
    else:
        cases = in_order(load_rows(hub.pull(BENCHMARK, "dataset"), "cases")) if hub else frozen_cases()
        files = write_benchmark(folder, cases)
    print(f"  {sum(file.rows for file in files):,} rows in {folder}")
    return resolve(str(folder), "dataset")


def base_answers(work: Work, benchmark: Artifact, stage: str) -> Artifact:
    """All answers of the base model, its own or those that are published; returns the model."""
    from inference.engines import model_artifact
    from inference.generate import prompt_rows
    from inference.series import answer_runs

    if stage == "cases":
        runs = list(work.base_runs())
        # Before the model: a wrong run is refused without waiting for it.
        asked = [(each, prompt_rows(benchmark, each)) for each in runs]
        model = model_artifact(work.engine, work.recipe.model)
        answer_runs(asked, benchmark, model, work.settings(runs), work.out / "outputs")
        return model
    assert work.published
    model = model_artifact(work.engine, work.recipe.model)
    taken = take_outputs(work.published, "base-", model, work.out / "outputs")
    print(f"  {len(taken)} runs of {work.published.id} ({work.published.revision})", flush=True)
    return model


def sets(work: Work, benchmark: Artifact, model: Artifact) -> list[Task]:
    """What is to be trained on: the SFT rows of the base model's beliefs, or the benchmark with known posteriors."""
    from builders.sft import Benchmark, write_sets
    from training.sweep import Task

    if work.recipe.grpo:
        return [Task(job, work.recipe, benchmark, model, work.adapter(job)) for job in work.jobs]
    tasks, styles = (list(dict.fromkeys(getattr(job, name) for job in work.jobs)) for name in ("task", "style"))
    outputs = resolve(str(work.out / "outputs"), "dataset")
    written = write_sets(
        work.out / "sft", outputs, Benchmark(benchmark), tasks, styles, [holdout(name) for name in work.trained]
    )
    print("\n".join(f"  {note}" for note in written.notes()), flush=True)
    data = resolve(str(work.out / "sft"), "dataset")
    return [Task(job, work.recipe, data, model, work.adapter(job)) for job in work.jobs]


def check_trainable(work: Work, benchmark: Artifact) -> None:
    """Finds out before the long work whether its later stages can run.

    Raises:
        UserError: the libraries for training are missing, or the slice is too small for a noise floor.
    """
    from inference.generate import prompt_rows
    from training.base import check_libraries

    check_libraries()
    for each in work.adapted_runs(work.jobs[0]):
        prompt_rows(benchmark, each)


def adapted_answers(work: Work, benchmark: Artifact, model: Artifact, hub: Source | None) -> None:
    """The answers of every adapter, trained here or published, and the routed system of every holdout."""
    from inference.adapters import read_adapter
    from inference.generate import prompt_rows
    from inference.series import answer_runs

    for job in work.jobs:
        place = hub.reference(adapter_name(model.id, job.config)) if hub else str(work.adapter(job))
        adapter = read_adapter(resolve(place, "model"), model)
        runs = [dataclasses.replace(each, adapter=adapter) for each in work.adapted_runs(job)]
        asked = [(each, prompt_rows(benchmark, each)) for each in runs]
        answer_runs(asked, benchmark, model, work.settings(runs), work.out / "outputs")
    compose(work, benchmark)


def systems(work: Work) -> list[str]:
    """The holdouts that have a gate and a specialist."""
    trained = {(job.task, job.style, job.holdout) for job in work.jobs if isinstance(job, SftJob)}
    pair = (("decidability", "direct"), ("complete", "cot"))
    return [each for each in work.trained if {(*kind, each) for kind in pair} <= trained]


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
    from inference.adapters import Adapter
    from inference.generate import prompt_rows
    from inference.states import run_state
    from training.sweep import adapter_state

    def state(work: Work, each: Run, config: str, stage: str) -> State:
        prompts = None if benchmark is None else len(prompt_rows(benchmark, each))
        return run_state(work.out / "outputs", config, each.split, prompts, stage)

    for work in works:
        for each in work.base_runs():
            yield state(work, each, each.config, "base")
        for job in work.jobs:
            if isinstance(job, SftJob):
                there = (work.out / "sft" / job.config).is_dir()
                yield State("sft", job.config, "done" if there else "waiting")
        for job in work.jobs:
            yield adapter_state(work.adapter(job), work.steps(job))
        for job in work.jobs:
            trained = Adapter("", work.adapter(job), "", **dataclasses.asdict(job))
            for each in work.adapted_runs(job):
                yield state(work, each, dataclasses.replace(each, adapter=trained).config, "adapted")
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
    built = _together(works, folder) / ("posterior" if works[0].recipe.grpo else "benchmark")
    there = arguments.benchmark or (built if built.is_dir() else None)
    print(state_table(list(states(works, resolve(str(there), "dataset") if there else None))))
    return 0


def _run(arguments: argparse.Namespace, folder: Path | None) -> int:
    works = planned(arguments, folder)
    together = _together(works, folder)
    hub = source(arguments.from_hub) if arguments.from_hub else None
    if hub:
        works = [published_work(work, hub, arguments) for work in works]
    start = time.monotonic()
    for work in works:
        _announce(work)
    _stage("benchmark", start)
    benchmark = build(works, arguments, hub, together)
    if not hub or arguments.stage != "outputs":
        compute(works, benchmark, arguments, hub, start)
    _stage("report", start)
    page = report(works, benchmark, together, arguments.stage if hub else None)
    print(f"{(time.monotonic() - start) / 60:.1f} minutes; open {page}")
    return compare(works) if hub else 0


def compute(
    works: Sequence[Work], benchmark: Artifact, arguments: argparse.Namespace, hub: Source | None, start: float
) -> None:
    """Everything between benchmark and report that is not taken from the Hub."""
    stage = arguments.stage if hub else "cases"
    for work in works:
        write_recipe(work.recipe, work.out)
        if work.jobs:
            check_trainable(work, benchmark)
    _stage("answers of the base model", start)
    models = [base_answers(work, benchmark, stage) for work in works]
    if not any(work.jobs for work in works):
        return
    if stage != "adapters":
        from training.sweep import sweep

        _stage("adapters", start)
        tasks = [task for work, model in zip(works, models, strict=True) for task in sets(work, benchmark, model)]
        sweep(tasks, arguments.on)
    _stage("answers of the adapters", start)
    for work, model in zip(works, models, strict=True):
        adapted_answers(work, benchmark, model, hub if stage == "adapters" else None)


def report(works: Sequence[Work], benchmark: Artifact, together: Path, stage: str | None) -> Path:
    """A report for each model, where there are several one for all as well; prints the latter, returns its page."""
    from evaluate_metrics.record import read_record

    def answers(work: Work) -> Artifact:
        taken = work.published if stage == "outputs" else None
        return taken or resolve(str(work.out / "outputs"), "dataset")

    for work in works:
        settings = {}
        if work.published and (work.published.path / "report").is_dir():
            settings = read_record(work.published.path / "report").settings()
        written = write(work, [answers(work)], benchmark, work.out / "report", **settings)
    if len(works) > 1:
        written = write(works[0], [answers(work) for work in works], benchmark, together / "report")
    print(f"\n{written.table}\n")
    for note in written.notes:
        print(f"note: {note}")
    return written.page


def write(work: Work, outputs: Sequence[Artifact], benchmark: Artifact, out: Path, **settings: Any) -> AnyReport:
    """The report that goes with the work's recipe: on coherence, or on regret."""
    if grpo := work.recipe.grpo:
        from evaluate_metrics.regret_report import write_regret_report
        from evaluate_metrics.regret_scores import Settings

        return write_regret_report(outputs, benchmark, out, Settings(**{"trained": grpo.losses or None, **settings}))
    from evaluate_metrics.report import write_report

    return write_report(outputs, benchmark, out, **settings)


def compare(works: Sequence[Work]) -> int:
    """Every table beside the published one, cell by cell; 0 if all are equal."""
    from evaluate_metrics.comparison import compare_reports

    equal = True
    for work in works:
        assert work.published
        there = work.published.path / "report"
        if not there.is_dir():
            print(f"{work.published.id}: published without a report; there is nothing to compare with")
            equal = False
            continue
        comparison = compare_reports(there, work.out / "report")
        print("\n".join((f"{work.published.id} ({work.published.revision})", *comparison.lines())))
        equal &= not comparison.differing
    return 0 if equal else 1


def _announce(work: Work) -> None:
    generation = work.recipe.generation
    unit, item, every = ("test instances", "losses", "") if work.recipe.grpo else ("test cases", "items", "80 ")
    cases = f"{generation.limit} {unit}" if generation.limit else f"all {every}{unit}"
    items = f", {generation.cells} {item} of each" if generation.cells else ""
    trained = f", {len(work.jobs)} adapters" if work.jobs else ""
    decoding = "guided" if generation.guided else "free"
    print(f"{work.recipe.name}: {cases}{items}, {decoding} decoding{trained}", flush=True)


def _stage(name: str, start: float) -> None:
    print(f"{(time.monotonic() - start) / 60:5.1f} min  {name}", flush=True)


if __name__ == "__main__":
    run(main)
