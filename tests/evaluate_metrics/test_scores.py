"""The measures against a recomputation with plain loops, and what happens when something is missing."""

import csv
import json
import math
import re
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from builders.artifacts import Artifact, resolve
from builders.errors import UserError
from evaluate_metrics.report import Report, write_report
from evaluate_metrics.runs import load_runs
from evaluate_metrics.scores import Resampling, Scored, score_runs

FEW = Resampling(n_resamples=20)


def score(folder: Path, tiny: Any, **settings: Any) -> dict[str, Scored]:
    runs = load_runs([resolve(str(folder), "dataset")], tiny.artifact)
    return {scored.run.name: scored for scored in score_runs(runs, Resampling(**{"n_resamples": 20, **settings}))}


def read(text: str) -> tuple[float | None, str | None, str | None]:
    """Probability, choice and decision, by a reader that shares nothing with the parser."""
    if not text.startswith("<final>"):
        return None, None, None
    found = dict(re.findall(r"^(\w+): (.+)$", text, re.M))
    return float(found["Probability"]), found.get("Choice"), found.get("Decision")


def recompute(
    tiny: Any, agent: Any, base: Any, task: str, keep: Any = lambda row: True, floor_of: Any = None
) -> dict[str, Any]:
    """Every measure of one run on the rows that `keep` keeps, its floor from the rows that `floor_of` keeps.

    The reference beliefs are those of the agent `base`.
    """
    elicited: dict[str, list[float]] = {}
    for row in tiny.pick("elicitation"):
        if (p := read(base(row))[0]) is not None:
            elicited.setdefault(row["case_id"], []).append(p)
    distortions, errors, informed, joint, draws = [], [], [], [], {}
    cases = set()
    for row in tiny.pick(task):
        p, choice, decision = read(agent(row))
        if (floor_of or keep)(row):
            cases.add(row["case_id"])
            if p is not None:
                draws.setdefault(row["item_id"][:-3], []).append(p)
        if not keep(row):
            continue
        beliefs = elicited.get(row["case_id"], [])
        if p is not None and len(beliefs) >= 3:
            distortions.append(abs(p - sum(beliefs) / len(beliefs)))
        condition = row.get("condition", "D")
        coherent = p is not None and decision == (row["act_word"] if p > row["p_star"] - 1e-9 else row["hold_word"])
        if p is not None and condition == "D" and decision in (row["act_word"], row["hold_word"]):
            errors.append(not coherent)
        informed.append(choice == condition)
        joint.append(choice == condition and p is not None and (condition != "D" or coherent))
    pairs_c = [abs(a - b) for pair in draws.values() for a, b in combinations(pair, 2)]
    pairs_a = [abs(a - b) for case in cases for a, b in combinations(elicited.get(case, []), 2)]
    m_c, m_a = sum(pairs_c) / len(pairs_c), sum(pairs_a) / len(pairs_a)
    floor, distortion = math.sqrt(m_c**2 / 2 + m_a**2 / 10), sum(distortions) / len(distortions)
    result = {
        "belief_distortion_error": (distortion, len(distortions)),
        "belief_conditional_decision_error": (sum(errors) / len(errors), len(errors)),
        "decision_spread": (m_c, len(pairs_c)),
        "elicitation_spread": (m_a, len(pairs_a)),
        "noise_floor": (floor, len(pairs_c)),
        "excess_belief_distortion": (math.sqrt(max(distortion**2 - floor**2, 0)), len(distortions)),
    }
    if task == "decidability":
        result["information_accuracy"] = (sum(informed) / len(informed), len(informed))
        result["joint_accuracy"] = (sum(joint) / len(joint), len(joint))
    return result


SLICES = (
    ("overall", "all", lambda row: True, None),
    ("framing", "betting", lambda row: row["framing"] == "betting", lambda row: True),
    ("domain_status", "held_out", lambda row: row["domain_status"] == "held_out", None),
)


@pytest.mark.parametrize("task", ["complete", "decidability"])
@pytest.mark.parametrize(("config", "agent"), [("base", "shifted"), ("sft", "coherent")])
def test_measures_csv_agrees_with_plain_loops(
    report: Report, tiny: Any, agents: Any, task: str, config: str, agent: str
) -> None:
    written = {
        (row["slice_kind"], row["slice"], row["measure"]): row
        for row in csv.DictReader((report.folder / "measures.csv").open())
        if row["run"] == f"{config}-direct-{task}"
    }
    for kind, name, keep, floor_of in SLICES:
        for measure, (value, n) in recompute(tiny, agents[agent], agents["shifted"], task, keep, floor_of).items():
            row = written[kind, name, measure]
            assert float(row["value"]) == pytest.approx(value, abs=1e-12), (kind, measure)
            assert int(row["n"]) == n, (kind, measure)
            assert float(row["low"]) <= float(row["high"])


def test_the_agents_are_what_they_are_called(report: Report) -> None:
    values = {each.run.name: each.value for each in report.scored}
    assert values["sft-direct-complete"]("belief_conditional_decision_error") == 0
    assert values["sft-direct-decidability"]("joint_accuracy") == 1
    assert values["base-direct-complete"]("excess_belief_distortion") > 0.1
    assert values["base-direct-complete"]("belief_conditional_decision_error") > 0.1
    assert values["base-direct-decidability"]("recall_a") == 0


def test_one_repetition_gives_no_floor(tmp_path: Path, tiny: Any, agents: Any) -> None:
    tiny.run(tmp_path / "out", "elicitation", agents["coherent"])
    tiny.run(tmp_path / "out", "complete", agents["coherent"], repetitions=(1,))
    scored = score(tmp_path / "out", tiny)["base-direct-complete"]
    assert scored.value("belief_distortion_error") is not None
    for measure in ("noise_floor", "excess_belief_distortion", "decision_spread"):
        row = scored.get(measure)
        assert row is not None and (row.value, row.low, row.n) == (None, None, 0)
    assert scored.notes == (
        "base-direct-complete: no prompt has two readable answers, so there is no noise floor and no excess distortion",
    )


STRANGERS = (
    {"model": "tiny/other"},
    {"model_revision": "r1"},
    {"adapter": "tiny/adapter", "adapter_revision": "a0"},
    {"guided": True},
    {"style": "cot"},
)


@pytest.mark.parametrize("stranger", STRANGERS, ids=lambda stranger: json.dumps(stranger))
def test_beliefs_come_from_the_same_model_only(
    tmp_path: Path, tiny: Any, agents: Any, stranger: dict[str, Any]
) -> None:
    tiny.run(tmp_path / "out", "elicitation", agents["coherent"], **stranger)
    tiny.run(tmp_path / "out", "complete", agents["coherent"])
    scored = score(tmp_path / "out", tiny)["base-direct-complete"]
    assert scored.value("belief_distortion_error") is None and scored.value("noise_floor") is None
    assert scored.value("belief_conditional_decision_error") == 0
    assert scored.value("decision_spread") is not None
    assert "no free elicitation run of the same model for direct decisions" in scored.notes[0]
    assert scored.counts["answers_without_reference"] == scored.counts["answers"] == 320


def test_in_context_decisions_use_the_cot_beliefs(tmp_path: Path, tiny: Any, agents: Any) -> None:
    tiny.run(tmp_path / "out", "elicitation", agents["coherent"], style="cot")
    for style in ("cot", "in_context"):
        tiny.run(tmp_path / "out", "complete", agents["coherent"], style=style)
    scored = score(tmp_path / "out", tiny)
    for style in ("cot", "in_context"):
        assert scored[f"base-{style}-complete"].value("excess_belief_distortion") is not None


def test_a_case_with_two_parseable_elicitations_has_no_reference(tmp_path: Path, tiny: Any, agents: Any) -> None:
    poor, fair = list(dict.fromkeys(row["case_id"] for row in tiny.pick("complete")))[:2]

    def agent(row: dict[str, Any]) -> str:
        limit = {poor: 2, fair: 3}.get(row["case_id"], 5)
        return "no idea" if row["repetition"] > limit else str(agents["coherent"](row))

    tiny.run(tmp_path / "out", "elicitation", agent)
    tiny.run(tmp_path / "out", "complete", agents["coherent"])
    scored = score(tmp_path / "out", tiny)["base-direct-complete"]
    assert (scored.counts["cases_without_reference"], scored.counts["answers_without_reference"]) == (1, 80)
    assert "1 of 4 cases (80 of 320 answers) have no reference belief" in scored.notes[0]
    distortion, decision = scored.get("belief_distortion_error"), scored.get("belief_conditional_decision_error")
    assert distortion is not None and distortion.n == 240
    assert decision is not None and decision.n == 320
    spread = scored.get("elicitation_spread")
    assert spread is not None and spread.n == 1 + 3 + 10 + 10


def test_two_elicitations_of_the_same_beliefs_are_refused(tmp_path: Path, tiny: Any, agents: Any) -> None:
    tiny.run(tmp_path / "out", "complete", agents["coherent"])
    for config in ("one", "two"):
        tiny.run(tmp_path / "out", "elicitation", agents["coherent"], config=config)
    with pytest.raises(UserError, match="one and two elicit the same beliefs"):
        score(tmp_path / "out", tiny)


@pytest.mark.parametrize("unit", ["case", "domain", "item"])
def test_the_unit_moves_the_intervals_and_nothing_else(outputs: Artifact, tiny: Any, unit: str) -> None:
    case = score(outputs.path, tiny)["base-direct-complete"]
    other = score(outputs.path, tiny, unit=unit)["base-direct-complete"]
    assert [row.value for row in case.scores] == [row.value for row in other.scores]
    widths = [
        [row.high - row.low for row in each.scores if row.low is not None and row.high is not None]
        for each in (case, other)
    ]
    assert (widths[0] == widths[1]) == (unit == "case")


def test_slices_without_items_have_no_value(tmp_path: Path, tiny: Any, agents: Any) -> None:
    rows = [row for row in tiny.pick("complete") if row["domain_status"] == "seen" and row["framing"] == "trading"]
    few = type(tiny)(tiny.artifact, {**tiny.rows, "complete": rows})
    few.run(tmp_path / "out", "complete", agents["coherent"])
    few.run(tmp_path / "out", "elicitation", agents["coherent"])
    scored = score(tmp_path / "out", tiny)["base-direct-complete"]
    for row in scored.scores:
        if row.slice in ("held_out", "betting") and row.measure == "parse_rate":
            assert (row.value, row.low, row.high, row.n) == (None, None, None, 0)
    write_report([resolve(str(tmp_path / "out"), "dataset")], tiny.artifact, tmp_path / "report", n_resamples=5)
    assert "no items" in (tmp_path / "report" / "report.html").read_text()
