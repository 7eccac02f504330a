"""How fast answers are parsed, and that the time grows with the length of the text (run by hand).

    python tests/benchmarks/bench_parsing.py

The peer is the usual one-liner, `re.search(r"<final>(.*?)</final>", text, re.DOTALL)`, which reads no value at all.
Seconds are CPU seconds, the best of three.
"""

import re
import time
from collections.abc import Callable
from functools import partial

from evaluate_metrics.coherence.parsing import decidability_fields, parse

FIELDS = decidability_fields("BUY PROTECTION", "GO UNINSURED")
DIRECT = "<final>\nProbability: 0.35\nChoice: D\nDecision: GO UNINSURED\n</final>"
COT = "The premium is 100 and the payout is 1,000; at p < 0.1 going uninsured costs less.\n" * 60 + DIRECT
NAIVE = re.compile(r"<final>(.*?)</final>", re.DOTALL)
MEGABYTE = 2**20


def seconds(call: Callable[[], object], repeats: int = 1) -> float:
    """CPU seconds of one call, the best of three rounds of `repeats` calls."""
    rounds = []
    for _ in range(3):
        start = time.process_time()
        for _ in range(repeats):
            call()
        rounds.append((time.process_time() - start) / repeats)
    return min(rounds)


def main() -> None:
    for name, text in (("Direct", DIRECT), ("CoT", COT)):
        ours, naive = seconds(partial(parse, text, FIELDS), 2000), seconds(partial(NAIVE.search, text), 2000)
        print(
            f"{name:6} ({len(text):5} characters): {1 / ours:9,.0f} answers/s, {ours * 1e6:5.1f} us an answer", end=""
        )
        print(f"; naive regex {naive * 1e6:5.1f} us")
    print("repeated <final>:  parse      naive regex, on a 128th of the text")
    for size in (1, 2, 4, 8):
        text = "<final>" * (size * MEGABYTE // len("<final>"))
        # The naive pattern scans the rest of the text from each opening tag.
        ours, naive = seconds(partial(parse, text, FIELDS)), seconds(partial(NAIVE.search, text[: len(text) // 128]))
        print(f"  {size} MB            {ours:6.3f} s   {naive:6.3f} s")


if __name__ == "__main__":
    main()
