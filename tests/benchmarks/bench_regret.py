"""How long scoring regret takes: 196 instances, five orderings, nine losses, 1,000 resamples (run by hand).

    python tests/benchmarks/bench_regret.py

The peer is the definition as a plain loop, one decision at a time: three actions, three expected losses, their
differences; and the bootstrap as it is told, instances drawn by name and averaged, timed on few resamples.
"""

import random
import tempfile
import time
from collections import defaultdict
from pathlib import Path

import evaluate
import numpy as np

from evaluate_metrics.coherence.decisions import Decisions, answer_columns, read_decisions, summarise_decisions
from evaluate_metrics.coherence.parsing import decision_fields, elicitation_fields, parse
from evaluate_metrics.coherence.references import read_references
from evaluate_metrics.coherence.regret import decompose
from evaluate_metrics.coherence.rule import acts

ROOT = Path(__file__).parents[2]
N_INSTANCES, N_ORDERINGS, N_RESAMPLES, LOOPED = 196, 5, 1000, 10
WORDS = ("LABEL POSITIVE", "LABEL NEGATIVE")


def make_answers(rng: np.random.Generator) -> tuple[list[str], list[str], list[dict]]:
    """Decisions, beliefs and rows of a model with errors in both, 2% of each unreadable."""
    decisions, beliefs, rows = [], [], []
    for instance in range(N_INSTANCES):
        posterior = (instance % 49 + 1) / 50
        for ordering in range(1, N_ORDERINGS + 1):
            reported = round(float(np.clip(posterior + rng.normal(0, 0.15), 0, 1)), 2)
            belief = f"<final>\nProbability: {reported}\n</final>" if rng.random() > 0.02 else "I cannot say."
            for fp in range(1, 10):
                rows.append({"instance_id": f"synthetic-{instance}", "ordering": ordering, "posterior": posterior})
                rows[-1] |= {"cost_fp": fp, "cost_fn": 10 - fp, "act_word": WORDS[0], "hold_word": WORDS[1]}
                word = WORDS[not acts(float(np.clip(posterior + rng.normal(0, 0.1), 0, 1)), fp, 10 - fp)]
                decisions.append(f"<final>\nDecision: {word}\n</final>" if rng.random() > 0.02 else "I cannot say.")
                beliefs.append(belief)
    return decisions, beliefs, rows


def timed(name: str, call, repeats: int = 1):
    """The result of a call, and its CPU seconds, the best of three rounds of `repeats` calls."""
    rounds = []
    for _ in range(3):
        start = time.process_time()
        for _ in range(repeats):
            result = call()
        rounds.append((time.process_time() - start) / repeats)
    print(f"{name:66} {min(rounds) * 1e3:10.3f} ms CPU")
    return result, min(rounds)


def loop(decisions: Decisions) -> list[tuple[float, float, float]]:
    """The three terms of every decision that was read with its belief, one at a time."""
    names = ("action", "belief", "posterior", "cost_fp", "cost_fn")
    terms = []
    for act, belief, p, fp, fn in zip(*(getattr(decisions, name).tolist() for name in names), strict=True):
        if act != act or belief != belief:
            continue
        costs = ((p * fn), (1 - p) * fp)
        best, implied = costs[p * (fp + fn) >= fp - 1e-8], costs[belief * (fp + fn) >= fp - 1e-8]
        taken, scale = costs[int(act)], max(fp, fn)
        terms.append(((taken - best) / scale, (implied - best) / scale, (taken - implied) / scale))
    return terms


def loop_bootstrap(decisions: Decisions, n_resamples: int) -> list[float]:
    """Mean total regret in each resample of the instances, as it is told."""
    regrets = decompose(
        decisions.action, decisions.belief, decisions.posterior, decisions.cost_fp, decisions.cost_fn
    ).total.tolist()
    cells: dict[int, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    keys = zip(decisions.instance.tolist(), decisions.cell.tolist(), decisions.belief.tolist(), regrets, strict=True)
    for instance, cell, belief, regret in keys:
        if regret == regret and belief == belief:
            cells[instance][cell].append(regret)
    rng, means = random.Random(124), []
    for _ in range(n_resamples):
        drawn = [rng.randrange(N_INSTANCES) for _ in range(N_INSTANCES)]
        held = [[sum(values) / len(values) for values in cells[unit].values()] for unit in drawn if unit in cells]
        means.append(sum(sum(values) / len(values) for values in held) / len(held))
    return means


def main() -> None:
    texts, beliefs, rows = make_answers(np.random.default_rng(124))
    print(f"{len(texts):,} decisions, {N_INSTANCES} instances, {N_RESAMPLES:,} resamples")
    with tempfile.TemporaryDirectory() as cache:
        metric = evaluate.load(str(ROOT / "evaluate_metrics/coherence"), "regret", cache_dir=cache)
        timed("metric.compute", lambda: metric.compute(predictions=texts, beliefs=beliefs, references=rows))

    checked = read_references(rows, "regret")
    decided = [parse(text, decision_fields(*WORDS)) for text in texts]
    believed = [parse(text, elicitation_fields()) for text in beliefs]
    decisions, _ = timed("  parsed answers to arrays", lambda: read_decisions(decided, believed, checked))
    columns, _ = timed("  all measures of every answer", lambda: answer_columns(decisions), repeats=10)
    result, summary = timed(
        "  37 measures and their intervals", lambda: summarise_decisions(decisions, n_resamples=N_RESAMPLES)
    )

    arguments = (decisions.action, decisions.belief, decisions.posterior, decisions.cost_fp, decisions.cost_fn)
    _, ours = timed("regret, belief loss and residual: arrays", lambda: decompose(*arguments), repeats=10)
    terms, theirs = timed("  plain loop", lambda: loop(decisions))
    valid = columns["total_regret"].valid
    worst = max(
        np.abs(np.array(terms)[:, index] - columns[name].values[valid]).max()
        for index, name in enumerate(("total_regret", "belief_loss", "optimisation_residual"))
    )
    print(f"  ratio {theirs / ours:.1f} (above 1: ours is faster); largest difference {worst:.1e}")

    name = f"bootstrap of one measure: plain loop, {LOOPED} resamples"
    draws, looped = timed(name, lambda: loop_bootstrap(decisions, LOOPED))
    looped, one = looped / LOOPED * N_RESAMPLES, summary / 37
    print(f"  for {N_RESAMPLES:,} resamples: loop {looped:.2f} s, ours {one * 1e3:.2f} ms,", end=" ")
    print(f"ratio {looped / one:.0f} (above 1: ours is faster)")
    low, high = result["total_regret_ci"]
    print(f"  total regret {result['total_regret']:.4f} [{low:.4f}, {high:.4f}], loop's mean {np.mean(draws):.4f}")


if __name__ == "__main__":
    main()
