"""The systems' numbers against a recomputation from the formulas with pandas, and what makes up a system."""

import csv
import math
import re
import shutil
from itertools import combinations
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from builders.artifacts import Artifact, resolve
from builders.errors import UserError
from evaluate_metrics.report import Report, write_report
from evaluate_metrics.runs import load_runs
from evaluate_metrics.scores import Resampling, score_runs
from evaluate_metrics.systems import System, score_systems

UNSEEN = {
    "full-hedge": {"betting": "full_class", "trading": "full_class"},
    "cross-insurance-trading": {"insurance": "cross_class", "trading": "cross_class"},
}
MATCHING = {"direct": "direct", "cot": "cot", "in_context": "cot"}
NAMES = {"direct": "Base Direct", "cot": "Base CoT", "in_context": "Base In-context"}


def read(text: str | None) -> tuple[float | None, str | None, str | None]:
    """Probability, choice and decision of a block, by a reader that shares nothing with the parser."""
    found = dict(re.findall(r"^(Probability|Choice|Decision): (.+)$", str(text).partition("<final>")[2], re.M))
    return (float(found["Probability"]) if found else None), found.get("Choice"), found.get("Decision")


class Reference:
    """Every outputs file as a frame beside its benchmark rows, and P1's formulas over them."""

    def __init__(self, folders: list[Artifact], tiny: Any) -> None:
        prompts = pd.DataFrame([row for rows in tiny.rows.values() for row in rows if "style" in row])
        self.prompts = prompts.drop_duplicates("item_id").drop(columns="prompt").set_index("item_id")
        self.files = {path.parent.name: path for each in folders for path in each.path.glob("*/*.parquet")}

    def frame(self, config: str) -> pd.DataFrame:
        answers = pd.read_parquet(self.files[config])[["item_id", "text"]]
        frame = answers.join(self.prompts, on="item_id")
        frame[["p", "choice", "decision"]] = [read(text) for text in answers["text"]]
        frame["p"] = frame["p"].astype(float)
        return frame

    def routed(self, left_out: str) -> pd.DataFrame:
        answers = pd.read_parquet(self.files[f"routed-{left_out}"])
        frame = answers[["item_id", "route"]].join(self.prompts, on="item_id")
        gate, specialist = answers["gate_text"].map(read), answers["specialist_text"].map(read)
        forwarded = answers["route"] == "forwarded"
        frame["choice"] = [each[1] for each in gate]
        frame["p"] = [float(b[0] if f and b[0] is not None else a[0] if not f and a[0] is not None else "nan")
                      for f, a, b in zip(forwarded, gate, specialist, strict=True)]  # fmt: skip
        frame["decision"] = [b[2] if f else None for f, b in zip(forwarded, specialist, strict=True)]
        return frame

    def beliefs(self, style: str) -> pd.Series:
        grouped = self.frame(f"base-{MATCHING[style]}-elicitation").dropna(subset="p").groupby("case_id")["p"]
        return grouped.mean()[grouped.count() >= 3]

    def scored(self, frame: pd.DataFrame, reference: pd.Series, **labels: str) -> pd.DataFrame:
        condition = frame["condition"] if "condition" in frame and frame["condition"].notna().all() else "D"
        optimal = frame["act_word"].where(frame["p"] >= frame["p_star"] - 1e-9, frame["hold_word"])
        decided = frame["p"].notna() & (
            (frame["decision"] == frame["act_word"]) | (frame["decision"] == frame["hold_word"])
        )
        joint = (frame["choice"] == condition) & frame["p"].notna() & (
            (condition != "D") | (decided & (frame["decision"] == optimal))
        )  # fmt: skip
        return frame.assign(
            distortion=(frame["p"] - reference).abs(),
            error=(frame["decision"] != optimal).astype(float).where(decided & (condition == "D")),
            informed=(frame["choice"] == condition).astype(float),
            joint=joint.astype(float),
            **labels,
        )

    def run(self, config: str, style: str, **labels: str) -> pd.DataFrame:
        frame = self.frame(config)
        return self.scored(frame, frame["case_id"].map(self.beliefs(style)), **labels)

    def decision_pairs(self, config: str) -> pd.DataFrame:
        """One row for each prompt drawn twice: run and resample for an adapter, two repetitions for a base run."""
        first = self.frame(config)
        if f"{config}-resample" in self.files:
            second = self.frame(f"{config}-resample")
        else:
            first, second = (first[first["repetition"] == r] for r in (1, 2))
        first, second = (each.assign(stem=each["item_id"].str[:-3]).set_index("stem") for each in (first, second))
        both = first.join(second[["p"]], rsuffix="_again", how="inner")
        return both.assign(m=(both["p"] - both["p_again"]).abs()).dropna(subset="m")

    def elicitation_pairs(self, style: str) -> pd.DataFrame:
        frame = self.frame(f"base-{MATCHING[style]}-elicitation").dropna(subset="p")
        return pd.DataFrame(
            [
                {"domain_status": its["domain_status"].iloc[0], "m": abs(a - b)}
                for _, its in frame.groupby("case_id")
                for a, b in combinations(its["p"], 2)
            ]
        )

    def floor(self, configs: list[str], style: str, status: str = "", weights: Any = None) -> float:
        squares = []
        for pairs in (pd.concat([self.decision_pairs(config) for config in configs]), self.elicitation_pairs(style)):
            kept = pairs[pairs["domain_status"] == status] if status else pairs
            squares.append(mean(kept, "m", weights) ** 2)
        return math.sqrt(squares[0] / 2 + squares[1] / 10)


def mean(frame: pd.DataFrame, column: str, weights: Any = None) -> float:
    kept = frame.dropna(subset=column)
    weight = kept["domain_status"].map(weights) if weights else 1.0
    return float((kept[column] * weight).sum() / (len(kept) if weights is None else weight.sum()))


@pytest.fixture(scope="module")
def reference(trained: list[Artifact], tiny: Any) -> Reference:
    return Reference(trained, tiny)


@pytest.fixture(scope="module")
def written(trained_report: Report) -> dict[tuple[str, ...], dict[str, str]]:
    rows = csv.DictReader((trained_report.folder / "systems.csv").open())
    return {tuple(row[k] for k in ("system", "task", "slice_kind", "slice", "measure")): row for row in rows}


def check(written: Any, key: tuple[str, ...], value: float, n: int | None = None) -> None:
    row = written[key]
    assert float(row["value"]) == pytest.approx(value, abs=1e-12), key
    assert n is None or int(row["n"]) == n, key
    assert float(row["low"]) <= float(row["high"])


def check_slice(
    written: Any, at: tuple[str, str, str, str], frame: pd.DataFrame, floor: float, weights: Any = None
) -> None:
    measures = {"belief_distortion_error": "distortion", "belief_conditional_decision_error": "error"}
    if at[1] == "decidability":
        measures |= {"information_accuracy": "informed", "joint_accuracy": "joint"}
    for measure, column in measures.items():
        check(written, (*at, measure), mean(frame, column, weights), int(frame[column].notna().sum()))
    distortion = mean(frame, "distortion", weights)
    check(written, (*at, "noise_floor"), floor)
    check(written, (*at, "excess_belief_distortion"), math.sqrt(max(distortion**2 - floor**2, 0)))


@pytest.mark.parametrize("task", ["complete", "decidability"])
@pytest.mark.parametrize(("style", "name"), [("direct", "Direct SFT"), ("cot", "CoT SFT")])
def test_sft_systems_pool_their_holdouts(written: Any, reference: Reference, task: str, style: str, name: str) -> None:
    configs = [f"sft-{style}-{task}-{left_out}" for left_out in UNSEEN]
    pooled = pd.concat(
        [reference.run(config, style, left_out=left_out) for config, left_out in zip(configs, UNSEEN, strict=True)]
    )
    pooled["status"] = [
        UNSEEN[left_out].get(framing, "seen")
        for left_out, framing in zip(pooled["left_out"], pooled["framing"], strict=True)
    ]
    floor = reference.floor(configs, style)
    check_slice(written, (name, task, "overall", "all"), pooled, floor)
    for status in ("seen", "cross_class", "full_class"):
        kept = pooled[pooled["status"] == status]
        assert len(kept) == {"seen": 240, "cross_class": 40, "full_class": 40}[status]
        check_slice(written, (name, task, "framing_status", status), kept, floor)
    for status in ("seen", "held_out"):
        own = reference.floor(configs, style, status)
        check_slice(written, (name, task, "domain_status", status), pooled[pooled["domain_status"] == status], own)


@pytest.mark.parametrize("task", ["complete", "decidability"])
@pytest.mark.parametrize("style", ["direct", "cot", "in_context"])
def test_base_systems_without_a_shift_of_domains(written: Any, reference: Reference, task: str, style: str) -> None:
    frame = reference.run(f"base-{style}-{task}", style)
    floor = reference.floor([f"base-{style}-{task}"], style)
    check_slice(written, (NAMES[style], task, "overall", "all"), frame, floor)
    for status in ("seen", "held_out"):
        own = reference.floor([f"base-{style}-{task}"], style, status)
        kept = frame[frame["domain_status"] == status]
        check_slice(written, (NAMES[style], task, "domain_status", status), kept, own)


def test_the_routed_system(written: Any, reference: Reference) -> None:
    beliefs = {"direct": reference.beliefs("direct"), "cot": reference.beliefs("cot")}
    frames = []
    for left_out in UNSEEN:
        frame = reference.routed(left_out)
        by_gate, by_specialist = (frame["case_id"].map(beliefs[style]) for style in ("direct", "cot"))
        frames.append(reference.scored(frame, by_specialist.where(frame["route"] == "forwarded", by_gate)))
    pooled = pd.concat(frames)
    assert set(pooled["route"]) == {"terminated", "forwarded", "unreadable"}
    gates, specialists = ([f"sft-{part}-{left_out}" for left_out in UNSEEN]
                          for part in ("direct-decidability", "cot-complete"))  # fmt: skip
    for kind, status in (("overall", ""), ("domain_status", "seen"), ("domain_status", "held_out")):
        kept = pooled[pooled["domain_status"] == status] if status else pooled
        share = (kept.dropna(subset="p")["route"] == "forwarded").mean()
        floor = (1 - share) * reference.floor(gates, "direct", status)
        floor += share * reference.floor(specialists, "cot", status)
        check_slice(written, ("Routed", "decidability", kind, status or "all"), kept, floor)
    gate = written["Direct SFT", "decidability", "overall", "all", "information_accuracy"]
    assert gate["value"] == written["Routed", "decidability", "overall", "all", "information_accuracy"]["value"]


def systems(folders: list[Path], tiny: Any, **settings: Any) -> tuple[dict[tuple[str, str], System], tuple[str, ...]]:
    runs = load_runs([resolve(str(folder), "dataset") for folder in folders], tiny.artifact)
    resampling = Resampling(**{"n_resamples": 20, **settings})
    found, notes = score_systems(score_runs(runs, resampling), resampling)
    return {(each.label, each.task): each for each in found}, notes


def test_the_base_is_weighted_to_the_domain_mix_of_the_trained(tmp_path: Path, tiny: Any, family: Any) -> None:
    """The base answers two seen cases and one held-out one, the adapter one and two: weights 1/2 and 2."""
    a, b, c, d = dict.fromkeys(row["case_id"] for row in tiny.pick("complete"))
    family(tmp_path / "out", [a, b, c], [a, c, d])
    found, _ = systems([tmp_path / "out"], tiny)
    base = found["Base Direct", "complete"]
    reference = Reference([resolve(str(tmp_path / "out"), "dataset")], tiny)
    frame, weights = reference.run("base-direct-complete", "direct"), {"seen": 0.5, "held_out": 2.0}
    values = {
        "belief_distortion_error": mean(frame, "distortion", weights),
        "belief_conditional_decision_error": mean(frame, "error", weights),
        "noise_floor": reference.floor(["base-direct-complete"], "direct", "", weights),
        "parse_rate": 1.0,
    }
    for measure, value in values.items():
        assert base.get(measure).value == pytest.approx(value, abs=1e-12), measure
    assert values["belief_distortion_error"] != pytest.approx(mean(frame, "distortion"), abs=1e-6)
    assert base.get("belief_distortion_error", "framing_status", "seen") == base.get("belief_distortion_error")
    assert base.notes == (
        "tiny/agent, Base Direct, complete: no answers to 1 of the 3 cases that the trained systems answer",
    )


def test_a_base_that_lacks_a_domain_status_says_so(tmp_path: Path, tiny: Any, family: Any) -> None:
    a, b, _, d = dict.fromkeys(row["case_id"] for row in tiny.pick("complete"))
    family(tmp_path / "out", [a, b], [a, d])
    found, _ = systems([tmp_path / "out"], tiny)
    assert found["Base Direct", "complete"].notes[1:] == (
        "tiny/agent, Base Direct, complete: no answers on held-out domains, so it is not reweighted",
    )


def test_the_unit_moves_no_value(trained: list[Artifact], tiny: Any) -> None:
    folders = [each.path for each in trained]
    by_case, by_item = (systems(folders, tiny, unit=unit)[0] for unit in ("case", "item"))
    for key, system in by_case.items():
        assert [each.value for each in system.scores] == pytest.approx([each.value for each in by_item[key].scores])


def test_an_adapter_off_its_own_task_joins_no_system(tmp_path: Path, tiny: Any, family: Any, agents: Any) -> None:
    cases = list(dict.fromkeys(row["case_id"] for row in tiny.pick("complete")))
    family(tmp_path / "out", cases, cases)
    tiny.run(
        tmp_path / "out", "decidability", agents["coherent"], "sft-direct-complete-full-hedge-decidability",
        adapter="tiny/agent-complete-direct-full-hedge", adapter_revision="a0", holdout="full-hedge",
    )  # fmt: skip
    found, notes = systems([tmp_path / "out"], tiny)
    assert set(found) == {("Base Direct", "complete"), ("Direct SFT", "complete")}
    assert notes == (
        "sft-direct-complete-full-hedge-decidability: is not an adapter's run on its own task, so it belongs to no "
        "trained system",
    )


def test_the_same_system_twice_is_refused(tmp_path: Path, trained: list[Artifact], tiny: Any) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(trained[1].path / "routed-full-hedge", copy / "routed-full-hedge")
    with pytest.raises(UserError, match=r"are both Routed of full-hedge on decidability; give only one"):
        systems([*(each.path for each in trained), copy], tiny)


def test_without_a_component_the_routed_system_has_no_floor(tmp_path: Path, trained: list[Artifact], tiny: Any) -> None:
    for name in (
        "routed-full-hedge",
        "sft-direct-decidability-full-hedge",
        "sft-direct-decidability-full-hedge-resample",
    ):
        shutil.copytree(trained[1].path / name, tmp_path / "out" / name)
    report = write_report(
        [trained[0], resolve(str(tmp_path / "out"), "dataset")], tiny.artifact, tmp_path / "r", n_resamples=20
    )
    routed = next(each for each in report.systems if each.name == "Routed")
    assert routed.get("noise_floor").value is None and routed.get("excess_belief_distortion").value is None
    assert routed.get("belief_distortion_error").value is not None
    assert any("gate or of its specialist is not among the outputs" in note for note in report.notes)
    assert {point.measure for point in report.points if point.figure == "figure-4d"} == {"belief_distortion_error"}


def test_an_adapter_may_be_compared_with_itself(
    tmp_path: Path, trained: list[Artifact], tiny: Any, agents: Any
) -> None:
    own = tmp_path / "own"
    tiny.run(
        own, "elicitation", agents["coherent"], "sft-direct-complete-full-hedge-elicitation", model="tiny/agent-2B",
        adapter="tiny/agent-2B-complete-direct-full-hedge", adapter_revision="a0", holdout="full-hedge",
    )  # fmt: skip
    folders = [*trained, resolve(str(own), "dataset")]
    report = write_report(folders, tiny.artifact, tmp_path / "r", n_resamples=20, whose="own")
    values = {each.run.name: each for each in report.scored}
    elicited = pd.DataFrame(
        [{"case_id": row["case_id"], "p": read(agents["coherent"](row))[0]} for row in tiny.pick("elicitation")]
    )
    reference = Reference(trained, tiny)
    frame = reference.frame("sft-direct-complete-full-hedge")
    expected = reference.scored(frame, frame["case_id"].map(elicited.groupby("case_id")["p"].mean()))
    found = values["sft-direct-complete-full-hedge"].value("belief_distortion_error")
    assert found == pytest.approx(mean(expected, "distortion"), abs=1e-12)
    assert values["sft-cot-complete-full-hedge"].value("belief_distortion_error") is None
    assert any("no free elicitation run of the adapter itself for cot decisions" in note for note in report.notes)


def test_a_guided_base_is_the_reference_of_a_free_adapter(tmp_path: Path, tiny: Any, agents: Any) -> None:
    tiny.run(tmp_path / "out", "elicitation", agents["coherent"], "base-guided-direct-elicitation", guided=True)
    tiny.run(
        tmp_path / "out", "complete", agents["coherent"], "sft-direct-complete-full-hedge", repetitions=(1,),
        adapter="tiny/adapter", adapter_revision="a0", holdout="full-hedge",
    )  # fmt: skip
    runs = load_runs([resolve(str(tmp_path / "out"), "dataset")], tiny.artifact)
    scored = {each.run.name: each for each in score_runs(runs, Resampling(n_resamples=5))}[
        "sft-direct-complete-full-hedge"
    ]
    assert scored.value("belief_distortion_error") is not None
    assert scored.notes[0] == (
        "sft-direct-complete-full-hedge: free answers are compared with the guided direct elicitations of the base "
        "model, there being no others"
    )
