"""How fast the 48,000 complete-information prompts are built, and in how much memory (run by hand).

    python tests/benchmarks/bench_prompts.py

The peer is the usual way: a `datasets.Dataset` of the items, with the template's parts as columns, and a `map` that
fills the template (num_proc=1); it checks nothing. Each way runs in a fresh process, three times in turn with the
others; wall seconds are the best of three, from the cases to the rows, or to the parquet files; the peer's time
includes its table of items. Peak memory is the process's, imports included.
"""

import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PROMPTS = 48_000


def ours(folder: Path, parquet: bool) -> int:
    """Rows and check; with `parquet`, one file for each split."""
    from builders.benchmark import complete_rows
    from builders.cases import frozen_cases
    from builders.folders import write_parquet
    from builders.schema import COMPLETE, SPLITS

    total = 0
    for split in SPLITS:
        rows = list(complete_rows([case for case in frozen_cases() if case["split"] == split]))
        if parquet:
            write_parquet(folder, "complete", split, rows, COMPLETE)
        total += len(rows)
    return total


TEMPLATE = (
    "{setup}\n\nCase context:\n{evidence}\n\n{problem}\n\n{instruction}\n<final>\n{probability}\n{decision}\n</final>"
)


def items() -> Iterator[dict[str, Any]]:
    """The same items as columns; the payoff paragraph is still a template."""
    from builders.cases import frozen_cases
    from builders.framings import FRAMINGS, loss_ratio_clause, utility_ratio_clause
    from builders.styles import INSTRUCTIONS, STYLES
    from builders.utilities import COST_PAIRS

    for case in frozen_cases():
        for style in STYLES:
            for framing in FRAMINGS:
                for costs in COST_PAIRS:
                    for repetition in (1, 2):
                        yield {
                            "item_id": f"{case['case_id']}.{framing.name}.{costs.name}.complete.{style}.r{repetition}",
                            "split": case["split"],
                            "setup": case["setup"],
                            "event": case["event"],
                            "evidence": case["evidence"],
                            "instruction": INSTRUCTIONS["complete"][style],
                            "paragraph": framing.paragraph,
                            "certain": costs.certain,
                            "contingent": costs.contingent,
                            "net_gain": costs.net_gain,
                            "loss_ratio_clause": loss_ratio_clause(costs),
                            "utility_ratio_clause": utility_ratio_clause(costs),
                            "act_word": framing.act_word,
                            "hold_word": framing.hold_word,
                            "p_star": costs.p_star,
                        }


def filled(item: dict[str, Any]) -> dict[str, str]:
    """The map function: one prompt."""
    probability = "Probability: <a single number between 0 and 1>"
    decision = f"Decision: <{item['act_word']} or {item['hold_word']}>"
    problem = item["paragraph"].format(**item)
    return {"prompt": TEMPLATE.format(**item, problem=problem, probability=probability, decision=decision)}


def peer(folder: Path, parquet: bool) -> int:
    """`Dataset.map` over the items; with `parquet`, `to_parquet` of the result."""
    import datasets

    datasets.disable_progress_bars()
    table = datasets.Dataset.from_list(list(items()))
    kept = ("item_id", "split", "p_star", "act_word", "hold_word")
    prompts = table.map(filled, remove_columns=[name for name in table.column_names if name not in kept])
    if parquet:
        prompts.to_parquet(folder / "complete.parquet")
    return len(prompts)


WAYS = {
    "ours, rows and check": (ours, False),
    "Dataset.map": (peer, False),
    "ours, to parquet": (ours, True),
    "Dataset.map, to parquet": (peer, True),
}


def measure(name: str) -> None:
    """Prints the wall seconds and the peak memory in MB of one way."""
    import datasets  # noqa: F401  (its import is in neither time)

    import builders.benchmark  # noqa: F401

    way, parquet = WAYS[name]
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        assert way(Path(folder), parquet) == PROMPTS
        seconds = time.perf_counter() - start
    print(seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def main() -> None:
    """Runs every way three times, in turn, and prints the best."""
    runs: dict[str, list[tuple[float, float]]] = {name: [] for name in WAYS}
    for _ in range(3):
        for name in WAYS:
            command = [sys.executable, __file__, name]
            answer = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
            runs[name].append((float(answer[0]), float(answer[1])))
    best = {name: (min(s for s, _ in each), min(mb for _, mb in each)) for name, each in runs.items()}
    for name, (seconds, megabytes) in best.items():
        print(f"{name:24} {PROMPTS / seconds:9,.0f} prompts/s  {seconds:5.2f} s  peak {megabytes:5,.0f} MB")
    for mine, theirs in (("ours, rows and check", "Dataset.map"), ("ours, to parquet", "Dataset.map, to parquet")):
        time_ratio, memory_ratio = best[theirs][0] / best[mine][0], best[mine][1] / best[theirs][1]
        print(f"{mine}: {time_ratio:.1f} times the speed and {memory_ratio:.2f} times the memory of {theirs}")


if __name__ == "__main__":
    measure(sys.argv[1]) if len(sys.argv) > 1 else main()
