"""How long the report with trained systems takes: 40 runs of adapters and routers, six of the base (run by hand).

    python tests/benchmarks/bench_report.py

The floor's hierarchical bootstrap, 8 adapters of 200 prompts, has a plain loop beside it, timed on few replicates. The
report's outputs are written first: 8 holdouts of 3,200 test prompts for each of four adapters and the routed system,
200 of an adapter's answered again, and 6,400 answers of a base model in three styles on two tasks.
"""

import tempfile
import time
from pathlib import Path
from zlib import crc32

import numpy as np
import yaml

from builders.artifacts import resolve
from builders.benchmark import config_rows
from builders.cases import frozen_cases
from builders.conditions import assign_conditions
from builders.folders import write_parquet
from builders.holdouts import HOLDOUTS
from builders.schema import BENCHMARK, OUTPUTS, ROUTED
from evaluate_metrics.floors import REPLICATES, Pair, adapter_spread
from evaluate_metrics.report import write_report

N_ADAPTERS, N_PROMPTS, LOOPED = 8, 200, 40
ADAPTERS = (("complete", "direct"), ("complete", "cot"), ("decidability", "direct"), ("decidability", "cot"))
REASONING = "The evidence points in one direction, and the options are compared at that probability.\n" * 6
RUN = {
    "model": "tiny/agent-2B", "model_revision": "r0", "engine": "agent", "engine_version": "1", "guided": False,
    "temperature": 0.7, "top_p": 0.95, "max_tokens": 3500, "finish_reason": "stop", "prompt_tokens": 1,
    "completion_tokens": 1,
}  # fmt: skip


def timed(name: str, call):
    start, cpu = time.perf_counter(), time.process_time()
    result = call()
    print(f"{name:62} {time.perf_counter() - start:8.3f} s ({time.process_time() - cpu:.3f} s CPU)")
    return result, time.process_time() - cpu


def make_pairs(rng: np.random.Generator) -> list[list[Pair]]:
    return [
        [
            Pair(f"case-{i % 80}", "", "seen", f"{i}", ("run", f"{adapter}", "again", f"{i}"), float(difference))
            for i, difference in enumerate(rng.exponential(0.1 + 0.02 * adapter, N_PROMPTS))
        ]
        for adapter in range(N_ADAPTERS)
    ]


def loop(adapters: list[list[Pair]], n: int, rng: np.random.Generator) -> list[float]:
    """The bootstrap as it is told: draw adapters, in each its prompts, and take the mean."""
    replicates = []
    for _ in range(n):
        drawn = []
        for adapter in rng.integers(len(adapters), size=len(adapters)):
            pairs = adapters[adapter]
            drawn += [pairs[index].difference for index in rng.integers(len(pairs), size=len(pairs))]
        replicates.append(sum(drawn) / len(drawn))
    return replicates


def bench_floor() -> None:
    adapters = make_pairs(np.random.default_rng(124))
    spread = adapter_spread(adapters)
    print(f"floor: {N_ADAPTERS} adapters, {N_PROMPTS} prompts each, {REPLICATES:,} replicates")
    ours, seconds = timed(
        "  adapter_spread(...).resample", lambda: spread.resample(REPLICATES, np.random.default_rng(1))
    )
    theirs, slow = timed(f"  plain loop, {LOOPED} replicates", lambda: loop(adapters, LOOPED, np.random.default_rng(1)))
    print(f"  a replicate: ours {seconds / REPLICATES * 1e6:.1f} µs, loop {slow / LOOPED * 1e6:.0f} µs,", end=" ")
    print(f"ratio {slow / LOOPED / seconds * REPLICATES:.0f} (above 1: ours is faster)")
    print(f"  standard deviation of the replicates: ours {ours.std():.5f}, loop {np.std(theirs):.5f}")


def answer(row: dict, name: str) -> str:
    """An answer in the row's format, with a belief, a label and an action that depend on the item and the run alone."""
    chance = crc32(f"{name} {row['item_id']}".encode())
    p = round(0.1 + crc32(row["case_id"].encode()) % 70 / 100 + chance % 11 / 100, 2)
    before = REASONING if row["style"] != "direct" else ""
    if "framing" not in row:
        return f"{before}<final>\nProbability: {p}\n</final>"
    act = (p >= row["p_star"]) == (chance % 5 > 0)
    decision = row["act_word"] if act else row["hold_word"]
    if "condition" not in row:
        return f"{before}<final>\nProbability: {p}\nDecision: {decision}\n</final>"
    choice = row["condition"] if chance % 7 else "ABCD"[chance % 4]
    decision = decision if choice == "D" else "N/A"
    return f"{before}<final>\nProbability: {p}\nChoice: {choice}\nDecision: {decision}\n</final>"


def write_run(folder: Path, config: str, rows: list[dict], base_seed: int = 124, **identity) -> None:
    fixed = RUN | {"adapter": None, "adapter_revision": None, "holdout": None, "task": config.split("-")[2]} | identity
    outputs = [
        fixed
        | {
            "item_id": row["item_id"],
            "style": row["style"],
            "seed": base_seed ^ crc32(row["item_id"].encode()) & 0x7FFFFFFF,
            "text": answer(row, f"{config} {base_seed}"),
        }
        for row in rows
    ]
    write_parquet(folder, config, "test", outputs, OUTPUTS)


def write_routed(folder: Path, rows: list[dict], holdout: str) -> None:
    outputs = []
    for row in rows:
        gate = answer(row, f"sft-direct-decidability-{holdout} 124")
        forwarded = "Choice: D" in gate
        item_id = row["item_id"].replace(".decidability.direct.", ".complete.cot.")
        second = {name: value for name, value in row.items() if name != "condition"} | {
            "item_id": item_id,
            "style": "cot",
        }
        outputs.append(
            RUN
            | {
                "item_id": row["item_id"], "holdout": holdout, "route": "forwarded" if forwarded else "terminated",
                "gate": f"direct-decidability-{holdout}", "gate_revision": "a0", "gate_text": gate,
                "gate_finish_reason": "stop", "specialist": f"cot-complete-{holdout}", "specialist_revision": "a0",
                "specialist_item_id": item_id if forwarded else None, "task": "decidability",
                "specialist_text": answer(second, f"sft-cot-complete-{holdout} 124") if forwarded else None,
                "specialist_finish_reason": "stop" if forwarded else None,
            }
        )  # fmt: skip
    outputs = [{name: row[name] for name in ROUTED} for row in outputs]
    write_parquet(folder, f"routed-{holdout}", "test", outputs, ROUTED)


def write_everything(root: Path) -> int:
    """The benchmark's test split and all outputs; returns how many answers the report will pool."""
    cases = [case for case in frozen_cases() if case["split"] == "test"]
    conditions, rows = assign_conditions(cases), {}
    for config in BENCHMARK:
        rows[config] = config_rows(config, cases, conditions)
        write_parquet(root / "benchmark", config, "test", rows[config], BENCHMARK[config])
    files = {name: [{"split": "test", "path": f"{name}/test-*.parquet"}] for name in BENCHMARK}
    configs = [{"config_name": name, "data_files": paths} for name, paths in files.items()]
    (root / "benchmark" / "README.md").write_text(f"---\n{yaml.safe_dump({'configs': configs})}---\n")

    def pick(task: str, style: str, repetitions: tuple[int, ...]) -> list[dict]:
        return [row for row in rows[task] if row["style"] == style and row["repetition"] in repetitions]

    n = 0
    for task in ("elicitation", "complete", "decidability"):
        for style in ("direct", "cot", "in_context")[: 2 if task == "elicitation" else 3]:
            prompts = pick(task, style, (1, 2, 3, 4, 5))
            write_run(root / "outputs", f"base-{style}-{task}", prompts)
            n += len(prompts)
    for holdout in HOLDOUTS:
        for task, style in ADAPTERS:
            prompts = pick(task, style, (1,))
            adapter = {"adapter": f"{style}-{task}-{holdout.name}", "adapter_revision": "a0", "holdout": holdout.name}
            write_run(root / "outputs", f"sft-{style}-{task}-{holdout.name}", prompts, **adapter)
            write_run(root / "outputs", f"sft-{style}-{task}-{holdout.name}-resample", prompts[::16], 125, **adapter)
            n += len(prompts)
        write_routed(root / "outputs", pick("decidability", "direct", (1,)), holdout.name)
        n += len(pick("decidability", "direct", (1,)))
    return n


def main() -> None:
    bench_floor()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        n, _ = timed("report: writing the outputs", lambda: write_everything(root))
        outputs, benchmark = (resolve(str(root / name), "dataset") for name in ("outputs", "benchmark"))
        report, seconds = timed(
            f"  write_report, {n:,} answers, 1,000 resamples",
            lambda: write_report([outputs], benchmark, root / "report"),
        )
        print(f"  {len(report.scored)} runs, {len(report.systems)} systems, {seconds / n * 1e6:.0f} µs CPU an answer")


if __name__ == "__main__":
    main()
