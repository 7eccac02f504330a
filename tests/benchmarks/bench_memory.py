"""Memory of a generation run with a million prompt rows: answered, journalled, compacted to parquet, then resumed.

    python tests/benchmarks/bench_memory.py [--rows 1000000]

The prompts are synthetic, some 2,000 characters each, and the engine is faked: it draws a window of requests ahead as
the real ones do and answers with 400 characters. Everything else is what ``python -m inference generate`` runs. Beside
it: the naive way, which holds the rows and the answers in lists (for a tenth of the rows, times ten).
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Iterable
from pathlib import Path
from typing import Any

from builders.artifacts import Artifact
from builders.folders import write_parquet
from builders.schema import COMPLETE
from inference.generate import Run, generate
from inference.requests import Completion, Request, Sampling

WORDS = "the evidence says that an intervention costs a hundred and a loss of more is averted if the event occurs "


class Instant:
    """An engine that answers at once, a window of requests ahead."""

    name, version, hidden = "instant", "none", frozenset[str]()

    def generate(self, requests: Iterable[Request], sampling: Sampling) -> Generator[Completion, None, None]:
        remaining = iter(requests)
        while window := list(itertools.islice(remaining, 8192)):
            for each in window:
                text = f"{each.seed} {WORDS * 4}"[:400]
                yield Completion(each.item_id, text, "stop", len(each.prompt) // 4, 100)


def prompt_row(number: int) -> dict[str, Any]:
    """A made-up row of the complete task; 40 of a case."""
    case, item = divmod(number, 40)
    return {
        "item_id": f"made-{case:05d}.insurance.fp{item}-fn1.complete.direct.r1", "case_id": f"made-{case:05d}",
        "domain": "wildfire", "domain_status": "seen", "split": "test", "style": "direct", "repetition": 1,
        "prompt": f"{case} {WORDS * 20}"[:1990] + f" {item}", "framing": "insurance", "framing_class": "protective",
        "cost_fp": item, "cost_fn": 1, "p_star": item / (item + 1), "act_word": "ACT", "hold_word": "HOLD",
    }  # fmt: skip


def streamed(rows: int, folder: Path) -> None:
    """A run as the command makes it, then the same again, which finds everything there."""
    import datasets

    datasets.disable_progress_bars()
    prompts = datasets.load_dataset("parquet", data_files=str(folder / "complete/*.parquet"), cache_dir=str(folder))
    run, model = Run("complete", "direct"), Artifact("made", folder, "none")
    for _ in range(2):
        path = generate(run, prompts["train"].select(range(rows)), model, Instant(), folder / "outputs")
    import pyarrow.parquet as pq

    assert pq.ParquetFile(path).metadata.num_rows == rows


def naive(rows: int, folder: Path) -> None:
    """Rows and answers in lists, as a script of one page would have them."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    prompts = pq.read_table(folder / "complete").to_pylist()[:rows]
    asked = [Request(row["item_id"], row["prompt"], 0) for row in prompts]
    answers = list(Instant().generate(asked, Sampling()))
    pq.write_table(pa.Table.from_pylist([vars(each) for each in answers]), folder / "naive.parquet")


def measured(work: Callable[[int, Path], None], rows: int, folder: Path) -> tuple[float, float, float]:
    """(seconds, peak MiB of anonymous memory, peak MiB with mapped files) of a process of its own."""
    queue: Any = multiprocessing.get_context("spawn").Queue()
    process = multiprocessing.get_context("spawn").Process(target=_watched, args=(work, rows, folder, queue))
    process.start()
    process.join()
    return queue.get()  # type: ignore[no-any-return]


def _watched(work: Callable[[int, Path], None], rows: int, folder: Path, queue: Any) -> None:
    peaks = {"RssAnon": 0, "VmRSS": 0}
    over = threading.Event()

    def watch() -> None:
        while not over.wait(0.05):
            for line in Path("/proc/self/status").read_text().splitlines():
                name, _, value = line.partition(":")
                if name in peaks:
                    peaks[name] = max(peaks[name], int(value.split()[0]))

    thread = threading.Thread(target=watch)
    thread.start()
    start = time.perf_counter()
    try:
        work(rows, folder)
    finally:
        seconds = time.perf_counter() - start
        over.set()
        thread.join()
        queue.put((seconds, peaks["RssAnon"] / 1024, peaks["VmRSS"] / 1024))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    rows = parser.parse_args().rows
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        write_parquet(folder, "complete", "test", map(prompt_row, range(rows)), COMPLETE)
        ours = measured(streamed, rows, folder)
        few = measured(naive, rows // 10, folder)
    print(f"\n{rows:,} prompts, answered and resumed: {ours[0]:.0f} s")
    print(f"  streamed      {ours[1]:8,.0f} MiB, {ours[2]:,.0f} MiB with mapped files")
    print(f"  in lists      {few[1] * 10:8,.0f} MiB (ten times {few[1]:,.0f} MiB for {rows // 10:,} rows)")


if __name__ == "__main__":
    main()
