"""Commands of the training stage: ``python -m training sft``."""

from __future__ import annotations

import argparse
import dataclasses

from builders.artifacts import resolve
from builders.cli import run
from builders.remote import local_folder
from training.recipe import load_recipe
from training.sft import Job, check_job, train


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m training", description="SFT rows -> adapters.")
    commands = parser.add_subparsers(dest="command", required=True)
    sft = commands.add_parser(
        "sft",
        help="train one adapter by supervised fine-tuning",
        description="Trains one adapter. Run the same command again after an interruption: it goes on from the latest "
        "checkpoint, if recipe, data, base model and versions are the same.",
    )
    sft.add_argument("--recipe", required=True, help="a recipe in training/recipes or a YAML file")
    sft.add_argument("--model", help="the base model, if not the recipe's: folder, org/name[@revision], package:NAME")
    sft.add_argument("--task", required=True, help="complete or decidability")
    sft.add_argument("--style", required=True, help="direct or cot")
    sft.add_argument("--holdout", required=True, help="the framing holdout, e.g. full-hedge")
    sft.add_argument("--data", required=True, metavar="ID", help="the SFT sets: folder or org/name[@revision]")
    sft.add_argument("--out", required=True, metavar="DIR", help="the adapter's folder, or its URL")
    return parser


def main() -> int:
    """Parses the command line and trains."""
    a = _parser().parse_args()
    job = Job(a.task, a.style, a.holdout)
    check_job(job)
    recipe = load_recipe(a.recipe)
    if a.model:
        recipe = dataclasses.replace(recipe, model=a.model, base_model="")
    data, base = resolve(a.data, "dataset"), resolve(recipe.model, "model")
    with local_folder(a.out) as out:
        print(train(job, recipe, data, base, out))
    return 0


if __name__ == "__main__":
    run(main)
