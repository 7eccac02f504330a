"""Kills a generation run at random moments and resumes it, until it has been killed often enough (run by a test).

    python tests/inference/kills.py MODEL BENCHMARK FOLDER KILLS

The moments are uniform over the length of a whole run, while the model loads or answers; every fourth is one at which
the answers are all there and the parquet file and the card are being written. A run that comes to its end is compared
with an uninterrupted one, byte for byte, and the next begins. A run is a child of a process that has the libraries in
memory, so that a kill costs a second and not ten.
"""

import argparse
import os
import random
import shutil
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from builders.cli import run as run_command
from inference.__main__ import main as inference

CONFIG = "base-direct-complete"
FILE, CARD = Path(CONFIG) / "test-00000-of-00001.parquet", Path("README.md")
JOURNAL = Path(".journal") / f"{CONFIG}-test.jsonl"


def start(model: str, benchmark: str, out: Path) -> int:
    """The process id of a new run."""
    if child := os.fork():
        return child
    sys.argv = [
        "inference", "generate", "--model", model, "--benchmark", benchmark, "--task", "complete", "--style", "direct",
        "--limit", "4", "--dtype", "float32", "--batch-size", "4", "--max-tokens", "24", "--out", str(out),
    ]  # fmt: skip
    log = os.open(out.with_suffix(".log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    code: Any = 1
    try:
        run_command(inference)
    except SystemExit as end:
        code = end.code
    finally:
        sys.stdout.flush()
        os._exit(code)


def finish(child: int, due: Callable[[], bool] = lambda: False) -> bool:
    """Waits for a run, or kills it once it is due; whether it came to its end.

    Raises:
        RuntimeError: it failed.
    """
    while not (ended := os.waitpid(child, os.WNOHANG))[0]:
        if due():
            os.kill(child, signal.SIGKILL)
            ended = os.waitpid(child, 0)
            break
        time.sleep(0.001)
    if os.WIFSIGNALED(ended[1]):
        return False
    if os.waitstatus_to_exitcode(ended[1]):
        raise RuntimeError(f"the run ended with {os.waitstatus_to_exitcode(ended[1])}")
    return True


def moment(seconds: float) -> Callable[[], bool]:
    """Due after that many seconds from now."""
    deadline = time.monotonic() + seconds
    return lambda: time.monotonic() >= deadline


def last_moment(out: Path, answers: int, seconds: float) -> Callable[[], bool]:
    """Due that many seconds after the last answer is in the journal."""
    after: list[Callable[[], bool]] = []

    def due() -> bool:
        if not after and lines(out) >= answers:
            after.append(moment(seconds))
        return bool(after) and after[0]()

    return due


def compare(out: Path, whole: Path) -> tuple[int, int, int]:
    """(lost, answered twice, out of order) items; the bytes are compared as well.

    Raises:
        RuntimeError: parquet or card differ from the uninterrupted run's.
    """
    found, expected = (pq.read_table(folder / FILE)["item_id"].to_pylist() for folder in (out, whole))
    twice = sum(count - 1 for count in Counter(found).values())
    order = sum(a != b for a, b in zip(found, expected, strict=False))
    for path in (FILE, CARD):
        if (out / path).read_bytes() != (whole / path).read_bytes():
            raise RuntimeError(f"{path} differs from the uninterrupted run's; see {out}")
    return len(set(expected) - set(found)), twice, order


def lines(out: Path) -> int:
    """Whole lines in the journal."""
    return (out / JOURNAL).read_bytes().count(b"\n") if (out / JOURNAL).is_file() else 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("benchmark")
    parser.add_argument("folder", type=Path)
    parser.add_argument("kills", type=int)
    a = parser.parse_args()
    import peft
    import torch

    import inference.prefill

    torch.set_num_threads(1)
    assert peft and inference.prefill
    moments = random.Random(124)
    whole = a.folder / "whole"
    begin = time.monotonic()
    finish(start(a.model, a.benchmark, whole))
    length = time.monotonic() - begin
    kills, runs, where, wrong, surplus = 0, 0, Counter[str](), [0, 0, 0], 0
    while kills < a.kills:
        out = a.folder / f"run-{runs}"
        while True:
            child = start(a.model, a.benchmark, out)
            late = kills % 4 == 3
            due = (
                last_moment(out, lines(whole), moments.uniform(0, 0.1)) if late else moment(moments.uniform(0, length))
            )
            if finish(child, due if kills < a.kills else lambda: False):
                break
            kills += 1
            left = lines(out)
            state = "finishing" if left >= lines(whole) else "answering"
            where[state if left else "starting"] += 1
        runs += 1
        wrong = [a + b for a, b in zip(wrong, compare(out, whole), strict=True)]
        surplus += lines(out) - lines(whole)
        shutil.rmtree(out)
    listed = ", ".join(f"{count} {state}" for state, count in sorted(where.items()))
    print(f"{kills} kills in {runs} runs of {lines(whole)} prompts ({listed})")
    print(f"{wrong[0]} lost, {wrong[1]} twice, {wrong[2]} out of order; {surplus} surplus lines in the journals")


if __name__ == "__main__":
    main()
