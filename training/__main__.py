"""Commands of the training stage: ``python -m training sft`` and ``grpo``."""

from __future__ import annotations

import argparse
import dataclasses
from typing import Any

from builders.artifacts import resolve
from builders.cli import run
from builders.posterior.interventions import INTERVENTIONS
from builders.posterior.losses import read_thresholds
from builders.remote import local_folder
from builders.schema import POSTERIOR
from training import grpo, sft
from training.recipe import Recipe, load_recipe, restricted

AGAIN = (
    "Run the same command again after an interruption: it goes on from the latest checkpoint, if recipe, data, base "
    "model and versions are the same."
)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m training", description="Data -> adapters.")
    commands = parser.add_subparsers(dest="command", required=True)
    _add_sft(commands)
    _add_grpo(commands)
    return parser


def _add_sft(commands: Any) -> None:
    command = commands.add_parser(
        "sft",
        help="train one adapter by supervised fine-tuning",
        description=f"Trains one adapter on a model's own beliefs. {AGAIN}",
    )
    _add_common(command, "the SFT sets")
    command.add_argument("--task", required=True, help="complete or decidability")
    command.add_argument("--style", required=True, help="direct or cot")
    command.add_argument("--holdout", required=True, help="the framing holdout, e.g. full-hedge")


def _add_grpo(commands: Any) -> None:
    command = commands.add_parser(
        "grpo",
        help="train one adapter by reinforcement on known posteriors",
        description=f"Trains one adapter by GRPO, rewarded for beliefs, decisions or both. {AGAIN}",
    )
    _add_common(command, "the benchmark with known posteriors")
    command.add_argument("--task", required=True, help=", ".join(POSTERIOR))
    command.add_argument("--intervention", required=True, help=", ".join(INTERVENTIONS))
    command.add_argument(
        "--thresholds",
        metavar="T,T...",
        help="train on these alone, e.g. 0.2,0.4,0.6,0.8 (default: the recipe's, or all)",
    )


def _add_common(command: argparse.ArgumentParser, data: str) -> None:
    command.add_argument("--recipe", required=True, help="a recipe in training/recipes or a YAML file")
    command.add_argument(
        "--model", help="the base model, if not the recipe's: folder, org/name[@revision], package:NAME"
    )
    command.add_argument("--data", required=True, metavar="ID", help=f"{data}: folder or org/name[@revision]")
    command.add_argument("--out", required=True, metavar="DIR", help="the adapter's folder, or its URL")


def _grpo_job(a: argparse.Namespace, recipe: Recipe) -> grpo.Job:
    own = grpo.grpo_settings(recipe).losses
    losses = own if a.thresholds is None else restricted(read_thresholds(a.thresholds))
    return grpo.Job(a.task, a.intervention, losses)


def main() -> int:
    """Parses the command line and trains."""
    a = _parser().parse_args()
    recipe = load_recipe(a.recipe)
    job: sft.Job | grpo.Job
    if a.command == "sft":
        job = sft.Job(a.task, a.style, a.holdout)
        sft.check_job(job)
    else:
        job = _grpo_job(a, recipe)
        grpo.check_job(job)
    if a.model:
        recipe = dataclasses.replace(recipe, model=a.model, base_model="")
    data, base = resolve(a.data, "dataset"), resolve(recipe.model, "model")
    with local_folder(a.out) as out:
        if isinstance(job, sft.Job):
            print(sft.train(job, recipe, data, base, out))
        else:
            print(grpo.train(job, recipe, data, base, out))
    return 0


if __name__ == "__main__":
    run(main)
