"""How fast the eight complete-information CoT sets of a full elicitation are built, checked and written (run by hand).

    python tests/benchmarks/bench_sft.py

The peer is the straightforward way, with the same functions for one target: for every set, `Dataset.from_list` of its
prompts, a `map` that makes each row's target and checks it by itself (num_proc=1), and `to_parquet`. Both start from
the benchmark's rows and the beliefs in memory; each runs in a fresh process, twice in turn; wall seconds are the best.
"""

import subprocess
import sys
import tempfile
import time
import zlib
from pathlib import Path
from typing import Any

ROWS = 8 * (3_150 + 1_050)
TASK, STYLE = "complete", "cot"


def material() -> tuple[Any, dict[str, dict[str, Any]]]:
    """The benchmark with its rows made, and style -> split -> made-up beliefs of all cases."""
    from builders.beliefs import Elicitation, read_beliefs
    from builders.sft import SFT_SPLITS, Benchmark

    benchmark, answers, prompts = Benchmark(), {}, {}
    for split in SFT_SPLITS:
        benchmark.rows(TASK, split)
        prompts[split] = [row for row in benchmark.rows("elicitation", split) if row["style"] == STYLE]
        for row in prompts[split]:
            value = zlib.crc32(row["item_id"].encode()) % 1001 / 1000
            text = f"{'The evidence is mixed, so I weigh it. ' * 20}\n\n<final>\nProbability: {value}\n</final>"
            answers[row["item_id"]] = (text, "stop")
    run = Elicitation("base", STYLE, {}, "sha256-0", answers)
    return benchmark, {STYLE: {split: read_beliefs(run, rows) for split, rows in prompts.items()}}


def ours(folder: Path, benchmark: Any, beliefs: dict[str, dict[str, Any]]) -> int:
    """A target is made and checked once, whatever the number of sets that hold it."""
    from builders.holdouts import HOLDOUTS
    from builders.sft import SFT_SPLITS, write_task

    written = [write_task(folder, TASK, split, benchmark, beliefs, HOLDOUTS) for split in SFT_SPLITS]
    return sum(file.rows for files in written for file in files)


def peer(folder: Path, benchmark: Any, beliefs: dict[str, dict[str, Any]]) -> int:
    """Every set by itself, every row by itself."""
    import datasets

    from builders.holdouts import HOLDOUTS
    from builders.schema import SFT
    from builders.targets import check_targets, make_target

    def row_of(prompt: dict[str, Any]) -> dict[str, Any]:
        stated = {name: value for name, value in prompt.items() if value is not None}
        target = make_target(stated, beliefs[STYLE][prompt["split"]].cases[prompt["case_id"]])
        check_targets([target])
        return target.row

    datasets.disable_progress_bars()
    total = 0
    for split in beliefs[STYLE]:
        prompts = [row for row in benchmark.rows("elicitation", split) if row["style"] == STYLE]
        prompts += [row for row in benchmark.rows(TASK, split) if row["style"] == STYLE]
        names = dict.fromkeys(name for prompt in prompts for name in prompt)
        for holdout in HOLDOUTS:
            held_in = [prompt for prompt in prompts if prompt.get("framing") not in holdout.framings]
            table = datasets.Dataset.from_dict({name: [prompt.get(name) for prompt in held_in] for name in names})
            made = table.map(row_of, remove_columns=table.column_names, features=SFT)
            made.to_parquet(folder / f"{holdout.name}-{split}.parquet")
            total += len(made)
    return total


WAYS = {"ours": ours, "Dataset.map for each set": peer}


def measure(name: str) -> None:
    """Prints the wall seconds of one way."""
    import datasets  # noqa: F401  (its import is not in the time)

    benchmark, beliefs = material()
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        assert WAYS[name](Path(folder), benchmark, beliefs) == ROWS
        print(time.perf_counter() - start)


def main() -> None:
    """Runs both ways twice, in turn, and prints the best."""
    best = dict.fromkeys(WAYS, float("inf"))
    for _ in range(2):
        for name in WAYS:
            command = [sys.executable, __file__, name]
            answer = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            best[name] = min(best[name], float(answer))
    for name, seconds in best.items():
        print(f"{name:26} {ROWS / seconds:9,.0f} rows/s  {seconds:6.2f} s for {ROWS:,} rows in 8 sets")
    print(f"ours: {best['Dataset.map for each set'] / best['ours']:.1f} times the speed")


if __name__ == "__main__":
    measure(sys.argv[1]) if len(sys.argv) > 1 else main()
