"""A tiny benchmark with known posteriors, and outputs folders of agents whose regret is known: text in, no model."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zlib import crc32

import yaml

from builders.artifacts import Artifact, resolve
from builders.folders import write_parquet
from builders.posterior import synthetic, weather
from builders.posterior.instance import Instance
from builders.posterior.rows import _rows, checked_rows
from builders.schema import OUTPUTS, POSTERIOR_ROW

Row = dict[str, Any]
Agent = Callable[[Row], str]

INSTANCES = 4


def tiny_instances() -> dict[str, tuple[Any, list[Instance]]]:
    """Four forecasts, and two synthetic instances with two orderings, without features and with three."""
    forecasts = [each for each in weather.instances() if each.split == "test"][:INSTANCES]
    records = [
        Instance(f"synthetic-k{k}-p{p}-t0-b1", "test", p / 50, ("Records A.", "Records B."), {}, k)
        for k, p in ((0, 14), (3, 31))
    ]
    return {"weather": (weather.TASK, forecasts), "synthetic": (synthetic.TASK, records)}


def rows_of(task: Any, instances: Iterable[Instance], check: bool) -> list[Row]:
    """The rows as the builder makes them; those with made-up records cannot be read back."""
    if check:
        return list(checked_rows(task, instances))
    return [
        row
        for instance in instances
        for ordering, evidence in enumerate(instance.evidence, start=1)
        for row in _rows(task, instance, ordering, evidence)
    ]


@dataclass(frozen=True)
class Tiny:
    """The benchmark as a folder, its rows by config, and a way to write runs of it."""

    artifact: Artifact
    rows: dict[str, list[Row]]

    def pick(self, task: str) -> list[Row]:
        config, _, form = task.partition("-")
        return [row for row in self.rows[config] if row["format"] == form]

    def run(self, folder: Path, task: str, agent: Agent, config: str = "", **more: Any) -> None:
        """One run of an outputs folder; `rows` in `more` takes other rows than all of the task."""
        rows = more.pop("rows", None) or self.pick(task)
        fixed = {
            "model": "tiny/agent", "model_revision": "r0", "adapter": None, "adapter_revision": None, "holdout": None,
            "guided": False, "engine": "agent", "engine_version": "1", "style": "cot", "task": task, "temperature": 0.7,
            "top_p": 0.95, "max_tokens": 128, "finish_reason": "stop", "prompt_tokens": 10, "completion_tokens": 10,
        }  # fmt: skip
        outputs = [{**fixed, "item_id": row["item_id"], "seed": 1, "text": agent(row), **more} for row in rows]
        write_parquet(folder, config or f"base-cot-{task}", "test", outputs, OUTPUTS)

    def system(self, folder: Path, agent: Agent, name: str = "", config: str = "weather", **more: Any) -> None:
        """All three runs of a system on one config; `name` is its adapter's."""
        if name:
            more |= {"adapter": f"tiny/{name}", "adapter_revision": "a0"}
        for form in ("belief", "independent", "two_turn"):
            self.run(folder, f"{config}-{form}", agent, f"adapter-{name}-cot-{config}-{form}" if name else "", **more)


def write_tiny(folder: Path) -> Tiny:
    """The benchmark, its test split alone."""
    parts = tiny_instances()
    rows = {config: rows_of(*part, check=config == "weather") for config, part in parts.items()}
    files = [write_parquet(folder, config, "test", rows[config], POSTERIOR_ROW) for config in rows]
    configs = [{"config_name": f.config, "data_files": [{"split": f.split, "path": f.path}]} for f in files]
    (folder / "README.md").write_text(f"---\n{yaml.safe_dump({'configs': configs})}---\n")
    return Tiny(resolve(str(folder), "dataset"), rows)


def believing(belief: Callable[[Row], float], deciding: Callable[[Row], float]) -> Agent:
    """Reports one probability and decides by another."""

    def agent(row: Row) -> str:
        if row["format"] == "belief":
            return f"I weigh it.\n<final>\nProbability: {round(belief(row), 6)}\n</final>"
        act = deciding(row) * 10 >= row["cost_fp"] - 1e-9
        return f"<final>\nDecision: {row['act_word'] if act else row['hold_word']}\n</final>"

    return agent


def posterior(row: Row) -> float:
    return float(row["posterior"])


def elsewhere(row: Row) -> float:
    """A belief on the other side of one half."""
    return 1 - float(row["posterior"])


bayes = believing(posterior, posterior)
contrary = believing(posterior, elsewhere)  # right belief, wrong action
deluded = believing(elsewhere, elsewhere)  # wrong belief, coherent with it


def mumbling(row: Row) -> str:
    """Is as Bayes in two answers of three, and cannot be read in the third."""
    return "Hard to say. <script>alert(1)</script>" if crc32(row["item_id"].encode()) % 3 == 0 else bayes(row)
