"""How long scoring a pooled evaluation takes: 25,600 answers, 1,000 resamples by case (run by hand).

    python tests/benchmarks/bench_scoring.py

The peer is scipy.stats.bootstrap on the same values: the same case sums, the same number of resamples, its vectorised
path, once for each measure, while ours draws once for all measures.
"""

import tempfile
import time
from pathlib import Path

import evaluate
import numpy as np
from scipy import stats

from evaluate_metrics.coherence.measures import measure_columns, read_answers, summarise
from evaluate_metrics.coherence.parsing import decidability_fields, parse
from evaluate_metrics.coherence.resampling import unit_sums
from evaluate_metrics.coherence.rule import acts

ROOT = Path(__file__).parents[2]
N_CASES, ITEMS, N_RESAMPLES = 80, 320, 1000
WORDS = (("BUY PROTECTION", "GO UNINSURED"), ("BUY", "PASS"), ("ACT", "HOLD"), ("HOLD OUT", "CASH OUT"))
COSTS = ((10, 1), (10, 2), (1, 1), (2, 10), (1, 10))


def make_items(rng: np.random.Generator) -> tuple[list[str], list[dict]]:
    """Answers of a fairly good model to 80 cases of 320 decidability prompts, 2% of them unreadable."""
    texts, rows = [], []
    for case in range(N_CASES):
        tendency = rng.uniform(0.2, 0.95)
        belief = rng.uniform(0.05, 0.95)
        for index in range(ITEMS):
            (fp, fn), (act_word, hold_word) = COSTS[index % 5], WORDS[index % 4]
            condition = "D" if index % 2 else "ABC"[index // 2 % 3]
            row = {"case_id": f"case-{case}", "domain": f"domain-{case // 4}", "condition": condition}
            row |= {"cost_fp": fp, "cost_fn": fn, "act_word": act_word, "hold_word": hold_word}
            rows.append(row | {"reference_belief": belief})
            p = round(float(np.clip(belief + rng.normal(0, 0.05), 0, 1)), 2)
            choice = condition if rng.random() < tendency else "ABCD"[rng.integers(4)]
            act = acts(p, fp, fn) == (rng.random() < tendency)
            decision = (act_word if act else hold_word) if choice == "D" else "N/A"
            block = f"<final>\nProbability: {p}\nChoice: {choice}\nDecision: {decision}\n</final>"
            texts.append(block if rng.random() > 0.02 else "I cannot say.")
    return texts, rows


def timed(name: str, call):
    start, cpu = time.perf_counter(), time.process_time()
    result = call()
    wall = time.perf_counter() - start
    print(f"{name:58} {wall:7.3f} s ({time.process_time() - cpu:.3f} s CPU)")
    return result, wall


def parse_all(texts: list[str], rows: list[dict]) -> list:
    return [
        parse(text, decidability_fields(row["act_word"], row["hold_word"]))
        for text, row in zip(texts, rows, strict=True)
    ]


def scipy_interval(sums: np.ndarray, counts: np.ndarray):
    def mean(sums: np.ndarray, counts: np.ndarray, axis: int) -> np.ndarray:
        return sums.sum(axis) / counts.sum(axis)

    options = {"paired": True, "vectorized": True, "method": "percentile", "n_resamples": N_RESAMPLES}
    return stats.bootstrap((sums, counts), mean, rng=np.random.default_rng(124), **options).confidence_interval


def main() -> None:
    texts, rows = make_items(np.random.default_rng(124))
    print(f"{len(texts):,} answers, {N_CASES} cases, {N_RESAMPLES:,} resamples")
    with tempfile.TemporaryDirectory() as cache:
        metric = evaluate.load(str(ROOT / "evaluate_metrics/coherence"), "decidability", cache_dir=cache)
        for unit in ("case", "item"):
            call = {"predictions": texts, "references": rows, "unit": unit, "n_resamples": N_RESAMPLES}
            timed(f"metric.compute, unit={unit!r}", lambda call=call: metric.compute(**call))

    parsed, _ = timed("  parse", lambda: parse_all(texts, rows))
    units = np.unique([row["case_id"] for row in rows], return_inverse=True)[1]
    columns, _ = timed("  answers to columns", lambda: measure_columns(read_answers(parsed, rows), "decidability"))
    result, ours = timed("  measures and intervals", lambda: summarise(columns, units, (None, None), N_RESAMPLES, 124))

    # The peer gets the case sums for nothing; they are part of our time.
    values, valid = (
        np.stack([getattr(column, name) for column in columns.values()], axis=1) for name in ("values", "valid")
    )
    sums, counts = unit_sums(np.where(valid, values, 0), units), unit_sums(valid, units)
    intervals, theirs = timed(
        f"scipy.stats.bootstrap, {len(columns)} measures",
        lambda: [scipy_interval(sums[:, index], counts[:, index]) for index in range(len(columns))],
    )
    print(
        f"time for each measure: ours {ours / len(columns) * 1e3:.2f} ms, scipy {theirs / len(columns) * 1e3:.2f} ms,",
        end=" ",
    )
    print(f"ratio {theirs / ours:.2f} (above 1: ours is faster)")
    for name, interval in zip(columns, intervals, strict=True):
        low, high = result[f"{name}_ci"]
        print(
            f"  {name:36} {result[name]:.4f} [{low:.4f}, {high:.4f}]  scipy [{interval.low:.4f}, {interval.high:.4f}]"
        )


if __name__ == "__main__":
    main()
