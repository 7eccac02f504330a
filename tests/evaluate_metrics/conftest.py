"""A tiny benchmark and outputs folders of agents whose behaviour is known: text in, nothing of a model."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
import yaml

from builders.artifacts import Artifact, resolve
from builders.benchmark import config_rows
from builders.cases import frozen_cases
from builders.conditions import assign_conditions
from builders.folders import write_parquet
from builders.schema import BENCHMARK, OUTPUTS
from evaluate_metrics.report import Report, write_report
from inference.generate import write_outputs_card

Row = dict[str, Any]
Agent = Callable[[Row], str]

CASES = 4
SPLIT = "test"


def tiny_cases() -> list[Row]:
    """Two test cases of a seen domain and two of a held-out one."""
    test = [case for case in frozen_cases() if case["split"] == SPLIT]
    seen = [case for case in test if case["domain"] == "student_dropout"]
    held_out = [case for case in test if case["domain"] == "wildfire"]
    return seen[: CASES // 2] + held_out[: CASES // 2]


def write_tiny_benchmark(folder: Path, cases: list[Row]) -> dict[str, list[Row]]:
    conditions = assign_conditions(cases)
    rows = {config: config_rows(config, cases, conditions) for config in BENCHMARK}
    files = [write_parquet(folder, config, SPLIT, rows[config], BENCHMARK[config]) for config in BENCHMARK]
    # Not the benchmark's own card: that one speaks of train and validation cases, which the tiny one does not have.
    configs = [{"config_name": f.config, "data_files": [{"split": f.split, "path": f.path}]} for f in files]
    (folder / "README.md").write_text(f"---\n{yaml.safe_dump({'configs': configs})}---\n")
    return rows


def noise(item_id: str, scale: float) -> float:
    """A number in [-scale, scale] that depends on the item alone."""
    return (crc32(item_id.encode()) % 2001 / 1000 - 1) * scale


def belief(row: Row, scale: float = 0.05) -> float:
    """A belief of the case, with the item's noise."""
    base = 0.2 + crc32(row["case_id"].encode()) % 60 / 100
    return round(min(max(base + noise(row["item_id"], scale), 0), 1), 3)


def block(row: Row, p: float, choice: str = "D") -> str:
    """The answer that is coherent with p."""
    if "framing" not in row:
        return f"<final>\nProbability: {p}\n</final>"
    act = p * (row["cost_fp"] + row["cost_fn"]) >= row["cost_fp"] - 1e-9
    word = row["act_word"] if act else row["hold_word"]
    if "condition" not in row:
        return f"<final>\nProbability: {p}\nDecision: {word}\n</final>"
    return f"<final>\nProbability: {p}\nChoice: {choice}\nDecision: {word if choice == 'D' else 'N/A'}\n</final>"


def coherent(row: Row) -> str:
    """Keeps its belief, acts on it, and knows what is missing."""
    return block(row, belief(row), row.get("condition", "D"))


def shifted(row: Row) -> str:
    """Believes what the stakes suggest, prefers to act, always answers D, and mumbles now and then."""
    if crc32(row["item_id"].encode()) % 7 == 0:
        return "I would need to know more. Probability: 10-20%"
    if "framing" not in row:
        return coherent(row)
    shift = 0.25 if row["cost_fn"] > row["cost_fp"] else -0.1
    p = round(min(max(belief(row) + shift, 0), 1), 3)
    if crc32(f"act {row['item_id']}".encode()) % 3:
        return block(row, p)
    return block(row, p).replace(row["hold_word"], row["act_word"])


def write_run(folder: Path, config: str, task: str, rows: Iterable[Row], agent: Agent, **identity: Any) -> None:
    """One run of an outputs folder, answered by an agent."""
    rows = list(rows)
    fixed = {
        "model": "tiny/agent", "model_revision": "r0", "adapter": None, "adapter_revision": None, "holdout": None,
        "guided": False, "engine": "agent", "engine_version": "1", "style": rows[0]["style"], "task": task, "seed": 1,
        "temperature": 0.7, "top_p": 0.95, "max_tokens": 128, "finish_reason": "stop", "prompt_tokens": 10,
        "completion_tokens": 10,
    }  # fmt: skip
    outputs = [{**fixed, **identity, "item_id": row["item_id"], "text": agent(row)} for row in rows]
    write_parquet(folder, config, SPLIT, outputs, OUTPUTS)
    write_outputs_card(folder)


@dataclass(frozen=True)
class Tiny:
    """The tiny benchmark, its rows by config, and a way to write runs of it."""

    artifact: Artifact
    rows: dict[str, list[Row]]

    def pick(self, task: str, style: str = "direct", repetitions: Iterable[int] = range(1, 6)) -> list[Row]:
        return [row for row in self.rows[task] if row["style"] == style and row["repetition"] in repetitions]

    def run(self, folder: Path, task: str, agent: Agent, config: str = "", style: str = "direct", **more: Any) -> None:
        rows = self.pick(task, style, more.pop("repetitions", range(1, 6)))
        write_run(folder, config or f"base-{style}-{task}", task, rows, agent, **more)


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    folder = tmp_path_factory.mktemp("tiny") / "benchmark"
    rows = write_tiny_benchmark(folder, tiny_cases())
    return Tiny(resolve(str(folder), "dataset"), rows)


@pytest.fixture(scope="session")
def outputs(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    """Three runs of an agent that the stakes sway, and three of a coherent one, an adapter of the same model."""
    folder = tmp_path_factory.mktemp("runs") / "outputs"
    for task in ("elicitation", "complete", "decidability"):
        tiny.run(folder, task, shifted)
        tiny.run(folder, task, coherent, config=f"sft-direct-{task}", adapter="tiny/adapter", adapter_revision="a0")
    return resolve(str(folder), "dataset")


@pytest.fixture(scope="session")
def report(tiny: Tiny, outputs: Artifact, tmp_path_factory: pytest.TempPathFactory) -> Report:
    return write_report([outputs], tiny.artifact, tmp_path_factory.mktemp("report") / "out", n_resamples=200)


@pytest.fixture(scope="session")
def agents() -> dict[str, Agent]:
    return {"coherent": coherent, "shifted": shifted}
