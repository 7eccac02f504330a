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
from builders.holdouts import holdout
from builders.schema import BENCHMARK, OUTPUTS, ROUTED
from evaluate_metrics.report import Report, write_report
from inference.card import write_outputs_card

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


def trainee(name: str, wrong: float, mislabel: float = 0.1, left_out: str = "") -> Agent:
    """Acts against its belief in a share of items, twice as often on framings that it never saw, and mistakes labels.

    One answer in 29 cannot be read. A CoT answer has a line of reasoning before its block.
    """
    unseen = holdout(left_out).framings if left_out else ()

    def agent(row: Row) -> str:
        def chance(of: str) -> float:
            return crc32(f"{of} {name} {row['item_id']}".encode()) % 10_007 / 10_007

        before = "The case speaks for itself.\n" if row["style"] != "direct" else ""
        if chance("mumble") < 1 / 29:
            return f"{before}I would rather not say."
        p = round(min(max(belief(row) + noise(f"{name} {row['item_id']}", 0.08), 0), 1), 3)
        if "framing" not in row:
            return before + block(row, p)
        answer = block(row, p, row.get("condition", "D"))
        if chance("label") < mislabel and "condition" in row:
            answer = block(row, p, "ABCD"[int(chance("letter") * 4)])
        if chance("act") < wrong * (2 if row["framing"] in unseen else 1):
            words = {row["act_word"]: row["hold_word"], row["hold_word"]: row["act_word"]}
            head, label, word = answer.partition("Decision: ")
            chosen = word.partition("\n")[0]
            answer = f"{head}{label}{words.get(chosen, chosen)}\n</final>"
        return before + answer

    return agent


def again(agent: Agent) -> Agent:
    """The agent's second draw."""
    return lambda row: agent({**row, "item_id": f"{row['item_id']} again"})


def write_run(
    folder: Path, config: str, task: str, rows: Iterable[Row], agent: Agent, base_seed: int = 124, **identity: Any
) -> None:
    """One run of an outputs folder, answered by an agent."""
    rows = list(rows)
    fixed = {
        "model": "tiny/agent", "model_revision": "r0", "adapter": None, "adapter_revision": None, "holdout": None,
        "guided": False, "engine": "agent", "engine_version": "1", "style": rows[0]["style"], "task": task,
        "temperature": 0.7, "top_p": 0.95, "max_tokens": 128, "finish_reason": "stop", "prompt_tokens": 10,
        "completion_tokens": 10,
    }  # fmt: skip
    seeds = ((base_seed ^ crc32(row["item_id"].encode())) % 2**31 for row in rows)
    outputs = [
        {**fixed, "item_id": row["item_id"], "seed": seed, "text": agent(row), **identity}
        for row, seed in zip(rows, seeds, strict=True)
    ]
    write_parquet(folder, config, SPLIT, outputs, OUTPUTS)
    write_outputs_card(folder)


def complete_form(row: Row) -> Row:
    """The complete-information CoT prompt row of a decidability item, as far as an agent reads it."""
    item_id = row["item_id"].replace(".decidability.direct.", ".complete.cot.")
    return {name: value for name, value in row.items() if name != "condition"} | {"item_id": item_id, "style": "cot"}


def routed_row(row: Row, gate: Agent, specialist: Agent, left_out: str, model: str) -> Row:
    """One row of a routed run: the gate's label is read off its text by hand."""
    text = gate(row)
    chose = text.partition("Choice: ")[2][:1]
    forwarded = chose == "D"
    second = complete_form(row)
    return {
        "item_id": row["item_id"], "model": model, "model_revision": "r0", "holdout": left_out,
        "route": "forwarded" if forwarded else "terminated" if chose else "unreadable",
        "gate": f"{model}-decidability-direct-{left_out}", "gate_revision": "a0", "gate_text": text,
        "gate_finish_reason": "stop", "specialist": f"{model}-complete-cot-{left_out}", "specialist_revision": "a0",
        "specialist_item_id": second["item_id"] if forwarded else None,
        "specialist_text": specialist(second) if forwarded else None,
        "specialist_finish_reason": "stop" if forwarded else None,
        "engine": "agent", "engine_version": "1", "task": "decidability", "prompt_tokens": 10, "completion_tokens": 10,
    }  # fmt: skip


def write_routed(
    folder: Path, rows: Iterable[Row], gate: Agent, specialist: Agent, left_out: str, model: str, config: str = ""
) -> None:
    """The routed system of two agents."""
    outputs = [routed_row(row, gate, specialist, left_out, model) for row in rows]
    write_parquet(folder, config or f"routed-{left_out}", SPLIT, outputs, ROUTED)


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


HOLDOUTS = ("full-hedge", "cross-insurance-trading")
ADAPTERS = (("complete", "direct"), ("complete", "cot"), ("decidability", "direct"), ("decidability", "cot"))
WRONG = {"direct": 0.15, "cot": 0.05}


def adapter(model: str, task: str, style: str, left_out: str) -> tuple[Agent, dict[str, Any]]:
    """An adapter's agent and the identity of its runs."""
    name = f"{model}-{task}-{style}-{left_out}"
    identity = {"model": model, "adapter": name, "adapter_revision": "a0", "holdout": left_out}
    return trainee(name, WRONG[style], mislabel=0.1, left_out=left_out), identity


def write_base(folder: Path, tiny: Tiny, model: str, **identity: Any) -> None:
    """The base model's runs: elicitations in both styles, decisions in three."""
    middle = "guided-" if identity.get("guided") else ""
    for task in ("elicitation", "complete", "decidability"):
        for style in ("direct", "cot", "in_context")[: 2 if task == "elicitation" else 3]:
            agent = trainee(f"{model} {style}", 0.4 if style == "direct" else 0.25, mislabel=0.6)
            tiny.run(folder, task, agent, f"base-{middle}{style}-{task}", style, model=model, **identity)


def write_adapters(folder: Path, tiny: Tiny, model: str, left_out: str, twice: int = 48) -> None:
    """A holdout's adapters, each on its task, repetition 1, `twice` prompts answered again; and the routed system."""
    for task, style in ADAPTERS:
        agent, identity = adapter(model, task, style, left_out)
        rows, config = tiny.pick(task, style, (1,)), f"sft-{style}-{task}-{left_out}"
        write_run(folder, config, task, rows, agent, **identity)
        if twice:
            chosen = rows[:: len(rows) // twice]
            write_run(folder, f"{config}-resample", task, chosen, again(agent), base_seed=125, **identity)
    gate, specialist = (adapter(model, *part, left_out)[0] for part in (ADAPTERS[2], ADAPTERS[1]))
    write_routed(folder, tiny.pick("decidability", "direct", (1,)), gate, specialist, left_out, model)


@pytest.fixture(scope="session")
def trained(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> list[Artifact]:
    """The outputs of one model: a folder of its base runs, and one for the adapters of each of two holdouts."""
    folder = tmp_path_factory.mktemp("trained")
    write_base(folder / "base", tiny, "tiny/agent-2B")
    for left_out in HOLDOUTS:
        write_adapters(folder / left_out, tiny, "tiny/agent-2B", left_out)
    return [resolve(str(folder / name), "dataset") for name in ("base", *HOLDOUTS)]


@pytest.fixture(scope="session")
def trained_report(tiny: Tiny, trained: list[Artifact], tmp_path_factory: pytest.TempPathFactory) -> Report:
    return write_report(trained, tiny.artifact, tmp_path_factory.mktemp("trained-report") / "out", n_resamples=100)


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


@pytest.fixture(scope="session")
def family(tiny: Tiny) -> Callable[..., None]:
    """Writes the runs of a coherent base model and of one Direct adapter of it, on the cases given for each."""

    def write(folder: Path, base_cases: Iterable[str], adapter_cases: Iterable[str], base_seed: int = 125) -> None:
        for task in ("elicitation", "complete"):
            rows = [row for row in tiny.pick(task) if row["case_id"] in base_cases]
            write_run(folder, f"base-direct-{task}", task, rows, coherent)
        agent, identity = adapter("tiny/agent", "complete", "direct", "full-hedge")
        rows = [row for row in tiny.pick("complete", repetitions=(1,)) if row["case_id"] in adapter_cases]
        config = "sft-direct-complete-full-hedge"
        write_run(folder, config, "complete", rows, agent, **identity)
        write_run(folder, f"{config}-resample", "complete", rows[::2], again(agent), base_seed, **identity)

    return write


@pytest.fixture(scope="session")
def routing() -> Callable[..., dict[str, Any]]:
    """`routed_row`, for tests that write their own rows."""
    return routed_row
