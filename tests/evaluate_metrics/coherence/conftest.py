"""The literal answers, and benchmark rows with agents that answer them in a known way."""

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evaluate_metrics.coherence.parsing import (
    Fields,
    complete_fields,
    decidability_fields,
    decision_fields,
    elicitation_fields,
)
from evaluate_metrics.coherence.rule import acts

COST_PAIRS = ((10, 1), (10, 2), (1, 1), (2, 10), (1, 10))
WORDS = (("BUY PROTECTION", "GO UNINSURED"), ("ACT", "HOLD"))

Row = dict[str, Any]


@pytest.fixture(scope="session")
def literal_answers() -> list[dict[str, Any]]:
    """The rows of answers.jsonl, each with the `fields` that its prompt asked for."""
    lines = Path(__file__).with_name("answers.jsonl").read_text().splitlines()
    return [{**row, "fields": _fields(row)} for row in map(json.loads, lines)]


def _fields(row: dict[str, Any]) -> Fields:
    if row["task"] == "elicitation":
        return elicitation_fields()
    fields = {"complete": complete_fields, "decidability": decidability_fields, "decision": decision_fields}
    return fields[row["task"]](*row["words"])


def make_rows(n_cases: int, conditions: str = "D") -> Iterator[Row]:
    """Five cost pairs and two framings for each case, with beliefs in steps of 0.05, from 0.25 to 0.75."""
    for case in range(n_cases):
        for index, (fp, fn) in enumerate(COST_PAIRS):
            for shift, (act_word, hold_word) in enumerate(WORDS):
                yield {
                    "item_id": f"case-{case:02d}.{act_word}.fp{fp}-fn{fn}",
                    "prompt": "not read",
                    "case_id": f"case-{case:02d}",
                    "domain": f"domain-{case % 4}",
                    "condition": conditions[(case + index + shift) % len(conditions)],
                    "cost_fp": fp,
                    "cost_fn": fn,
                    "act_word": act_word,
                    "hold_word": hold_word,
                    "reference_belief": 0.25 + 0.05 * (case % 11),
                }


@pytest.fixture(scope="session")
def rows() -> Callable[..., list[Row]]:
    return lambda n_cases=20, conditions="D": list(make_rows(n_cases, conditions))


@pytest.fixture(scope="session")
def answer() -> Callable[..., str]:
    """answer(row, belief, coherent=True, choice=None): the block of an agent that acts on its belief, or against it."""

    def write(row: Row, belief: float, coherent: bool = True, choice: str | None = None) -> str:
        printed = f"{belief:.6f}"
        act = acts(float(printed), row["cost_fp"], row["cost_fn"]) == coherent
        decision = row["act_word"] if act else row["hold_word"]
        lines = [f"Probability: {printed}"]
        if choice is not None:
            lines.append(f"Choice: {choice}")
            decision = decision if choice == "D" else "N/A"
        return "\n".join(["<final>", *lines, f"Decision: {decision}", "</final>"])

    return write


@pytest.fixture(scope="session")
def problems() -> Callable[..., list[Row]]:
    """problems(posteriors, orderings=1): P2's rows, the nine decisions of each posterior in each ordering."""

    def make(posteriors: Iterable[float], orderings: int = 1) -> list[Row]:
        return [
            {
                "item_id": f"synthetic-{index:02d}.independent.fp{fp}-fn{10 - fp}.o{ordering}",
                "instance_id": f"synthetic-{index:02d}",
                "format": "independent",
                "ordering": ordering,
                "posterior": posterior,
                "cost_fp": fp,
                "cost_fn": 10 - fp,
                "threshold": fp / 10,
                "act_word": "LABEL POSITIVE",
                "hold_word": "LABEL NEGATIVE",
                "prompt": "not read",
                "n_features": 3,
            }
            for index, posterior in enumerate(posteriors)
            for ordering in range(1, orderings + 1)
            for fp in range(1, 10)
        ]

    return make


@pytest.fixture(scope="session")
def decide() -> Callable[[Row, float], str]:
    """decide(row, belief): the decision-only answer of an agent that acts on that belief."""

    def write(row: Row, belief: float) -> str:
        word = row["act_word"] if acts(belief, row["cost_fp"], row["cost_fn"]) else row["hold_word"]
        return f"<final>\nDecision: {word}\n</final>"

    return write


@pytest.fixture(scope="session")
def report() -> Callable[[float], str]:
    """report(belief): the belief-only answer."""
    return lambda belief: f"<final>\nProbability: {belief!r}\n</final>"


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(124)
