"""The routed system's truth table: every way in which gate and specialist may answer, and what it counts as."""

from pathlib import Path
from typing import Any

import pytest

from builders.artifacts import resolve
from builders.errors import UserError
from builders.folders import write_parquet
from builders.schema import ROUTED
from evaluate_metrics.coherence.measures import measure_columns, read_answers
from evaluate_metrics.coherence.references import read_references
from evaluate_metrics.routed import JOINT, read_routed
from evaluate_metrics.runs import load_runs

ROW = {
    "item_id": "wildfire-01.trading.fp1-fn1.decidability.direct.r1", "case_id": "wildfire-01", "domain": "wildfire",
    "cost_fp": 1, "cost_fn": 1, "act_word": "BUY", "hold_word": "PASS", "reference_belief": 0.5,
}  # fmt: skip


def gate(choice: str, decision: str = "N/A", p: str = "0.9") -> str:
    return f"<final>\nProbability: {p}\nChoice: {choice}\nDecision: {decision}\n</final>"


def specialist(p: str, decision: str) -> str:
    return f"A thought.\n<final>\nProbability: {p}\nDecision: {decision}\n</final>"


UNREAD = "I cannot say."
NO = None
TRUTH = (
    # true condition, gate, specialist -> informed, joint, decision error (None: not counted), belief, complete
    ("D", gate("D", "BUY"), specialist("0.2", "PASS"), 1, 1, 0, 0.2, 1),
    ("D", gate("D", "PASS"), specialist("0.2", "BUY"), 1, 0, 1, 0.2, 1),
    ("D", gate("D", "BUY"), UNREAD, 1, 0, NO, NO, 0),
    ("D", gate("D", "BUY"), specialist("0.2", "WAIT"), 1, 0, NO, 0.2, 0),
    ("D", gate("D", "BUY"), specialist("2", "BUY"), 1, 0, NO, NO, 0),
    ("D", gate("D", "BUY", p="many"), specialist("0.7", "BUY"), 1, 1, 0, 0.7, 1),
    ("D", gate("A"), "", 0, 0, NO, 0.9, 1),
    ("D", gate("A", "PASS"), "", 0, 0, NO, 0.9, 1),
    ("D", UNREAD, "", 0, 0, NO, NO, 0),
    ("D", gate("BUY", "BUY"), "", 0, 0, NO, 0.9, 0),
    ("A", gate("A"), "", 1, 1, NO, 0.9, 1),
    ("A", gate("A", p="many"), "", 1, 0, NO, NO, 0),
    ("A", gate("B"), "", 0, 0, NO, 0.9, 1),
    ("C", gate("D", "BUY"), specialist("0.2", "PASS"), 0, 0, NO, 0.2, 1),
    ("B", UNREAD, "", 0, 0, NO, NO, 0),
)


@pytest.mark.parametrize(("condition", "first", "second", "informed", "joint", "error", "belief", "complete"), TRUTH)
def test_what_a_routed_answer_counts_as(
    condition: str,
    first: str,
    second: str,
    informed: int,
    joint: int,
    error: int | None,
    belief: float | None,
    complete: int,
) -> None:
    answer = read_routed(ROW, (first, "stop"), (second, "stop"))
    answers = read_answers([answer.parsed], read_references([{**ROW, "condition": condition}], "decidability"))
    columns = measure_columns(answers, "decidability")
    found = {name: float(each.values[0]) if each.valid[0] else None for name, each in columns.items()}
    assert found["information_accuracy"] == informed
    assert found["joint_accuracy"] == joint
    assert found["belief_conditional_decision_error"] == error
    assert found["belief_distortion_error"] == (None if belief is None else pytest.approx(abs(belief - 0.5)))
    assert found["parse_rate"] == complete


def test_both_texts_are_kept_and_the_spans_point_into_them() -> None:
    first, second = gate("D", "BUY"), specialist("0.25", "PASS")
    answer = read_routed(ROW, (first, "stop"), (second, "stop"))
    assert answer.text == f"{first}{JOINT}{second}" and answer.forwarded
    read = {name: answer.text[slice(*each.span)] for name, each in answer.parsed.readings.items() if each.span}
    assert read == {"probability": "0.25", "choice": "D", "decision": "PASS"}


def test_a_specialist_cut_off_is_truncated() -> None:
    answer = read_routed(ROW, (gate("D", "BUY"), "stop"), ("Let me think", "length"))
    assert answer.parsed["decision"].state == "truncated" and answer.reason == "length"


def write(folder: Path, tiny: Any, agents: Any, routing: Any, **changes: Any) -> Any:
    rows = tiny.pick("decidability", repetitions=(1,))[:8]
    outputs = [routing(row, agents["coherent"], agents["coherent"], "full-hedge", "tiny/agent") for row in rows]
    outputs[3] |= changes
    write_parquet(folder, "routed-full-hedge", "test", outputs, ROUTED)
    return load_runs([resolve(str(folder), "dataset")], tiny.artifact)


def test_a_routed_run_names_both_adapters(tmp_path: Path, tiny: Any, agents: Any, routing: Any) -> None:
    (run,) = write(tmp_path, tiny, agents, routing)
    assert (run.style, run.task, run.holdout) == ("routed", "decidability", "full-hedge")
    assert run.identity[2:] == (
        "tiny/agent-decidability-direct-full-hedge + tiny/agent-complete-cot-full-hedge", "a0 + a0", False,
    )  # fmt: skip
    assert run.route.forwarded == [row["condition"] == "D" for row in run.rows]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"gate_text": gate("D", "BUY"), "route": "terminated"},
            "says terminated, but the gate's text reads as forwarded",
        ),
        ({"gate_text": gate("A"), "route": "forwarded"}, "says forwarded, but the gate's text reads as terminated"),
        ({"gate_text": UNREAD, "route": "terminated"}, "reads as unreadable; route again"),
        (
            {
                "gate_text": gate("D", "BUY"),
                "route": "forwarded",
                "specialist_item_id": "wildfire-02.trading.fp1-fn1.complete.cot.r1",
            },
            "was forwarded as wildfire-02.* which is another item",
        ),
        ({"holdout": "full-moon"}, "holdout has 2 values"),
        ({"gate": "another"}, "gate has 2 values"),
    ],
)
def test_rows_that_contradict_themselves_are_named(
    tmp_path: Path, tiny: Any, agents: Any, routing: Any, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        write(tmp_path, tiny, agents, routing, **changes)
