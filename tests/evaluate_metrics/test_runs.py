"""Runs are joined with the benchmark that they answer, and what does not fit is named."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from builders.artifacts import Artifact, resolve
from builders.errors import UserError
from evaluate_metrics.runs import load_runs


def load(folder: Path, tiny: Any) -> list[Any]:
    return load_runs([resolve(str(folder), "dataset")], tiny.artifact)


def test_runs_come_with_their_rows_prompts_and_parses(outputs: Artifact, tiny: Any) -> None:
    runs = load_runs([outputs], tiny.artifact)
    assert [run.name for run in runs] == sorted(run.name for run in runs) and len(runs) == 6
    run = next(run for run in runs if run.name == "sft-direct-complete")
    expected = tiny.pick("complete")
    assert [row["item_id"] for row in run.rows] == [row["item_id"] for row in expected]
    assert run.prompt(17) == expected[17]["prompt"]
    assert all(parsed.complete for parsed in run.parsed)
    assert (run.split, run.decoding, len(run.cases)) == ("test", "free", 4)
    assert run.identity == ("tiny/agent", "r0", "tiny/adapter", "a0", False)


def test_an_item_that_the_benchmark_lacks_is_named(tmp_path: Path, tiny: Any, agents: Any) -> None:
    rows = [dict(row) for row in tiny.pick("complete")]
    rows[3]["item_id"] = "mars-01.betting.fp1-fn1.complete.direct.r1"
    other = type(tiny)(tiny.artifact, {"complete": rows})
    other.run(tmp_path / "out", "complete", agents["coherent"])
    with pytest.raises(UserError, match=r"base-direct-complete, split test: item mars-01\.betting"):
        load(tmp_path / "out", tiny)


def test_a_doubled_item_is_named(tmp_path: Path, tiny: Any, agents: Any) -> None:
    rows = tiny.pick("complete")
    other = type(tiny)(tiny.artifact, {"complete": [*rows, rows[5]]})
    other.run(tmp_path / "out", "complete", agents["coherent"])
    with pytest.raises(UserError, match=f"item {rows[5]['item_id']} is answered more than once"):
        load(tmp_path / "out", tiny)


def test_a_run_of_the_wrong_style_is_refused(tmp_path: Path, tiny: Any, agents: Any) -> None:
    rows = [{**row, "style": "cot"} for row in tiny.pick("complete")]
    type(tiny)(tiny.artifact, {"complete": rows}).run(tmp_path / "out", "complete", agents["coherent"], style="cot")
    with pytest.raises(UserError, match="says style cot"):
        load(tmp_path / "out", tiny)


def test_folders_that_are_no_outputs_are_refused(tmp_path: Path, tiny: Any) -> None:
    with pytest.raises(UserError, match="no runs"):
        load(tmp_path, tiny)
    with pytest.raises(UserError, match=r"no column 'item_id'.*is this an outputs folder"):
        load(tiny.artifact.path, tiny)
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "test-00000-of-00001.parquet").write_bytes(b"no parquet")
    with pytest.raises(UserError, match="run x, split test: cannot be read"):
        load(tmp_path, tiny)


def test_same_names_in_two_folders_are_told_apart(tmp_path: Path, outputs: Artifact, tiny: Any) -> None:
    shutil.copytree(outputs.path, tmp_path / "again" / "outputs")
    shutil.copytree(outputs.path, tmp_path / "other")
    folders = [outputs, *(resolve(str(tmp_path / name), "dataset") for name in ("again/outputs", "other"))]
    names = [run.name for run in load_runs(folders, tiny.artifact)]
    assert len(set(names)) == 18
    assert "outputs:base-direct-complete/test#2" in names and "other:base-direct-complete/test" in names


def test_a_resample_belongs_to_the_run_that_it_repeats(tmp_path: Path, tiny: Any, family: Any) -> None:
    cases = {row["case_id"] for row in tiny.pick("complete")}
    family(tmp_path / "out", cases, cases)
    runs = {run.name: run for run in load(tmp_path / "out", tiny)}
    assert set(runs) == {"base-direct-complete", "base-direct-elicitation", "sft-direct-complete-full-hedge"}
    run = runs["sft-direct-complete-full-hedge"]
    assert run.holdout == "full-hedge" and run.resample is not None and len(run.resample.rows) == 80
    assert {row["item_id"] for row in run.resample.rows} < {row["item_id"] for row in run.rows}
    assert runs["base-direct-complete"].resample is None and runs["base-direct-complete"].holdout is None


def test_a_resample_is_known_by_its_seeds_too(tmp_path: Path, tiny: Any, family: Any) -> None:
    cases = {row["case_id"] for row in tiny.pick("complete")}
    family(tmp_path / "out", cases, cases)
    (tmp_path / "out" / "sft-direct-complete-full-hedge-resample").rename(tmp_path / "out" / "second")
    runs = {run.name: run for run in load(tmp_path / "out", tiny)}
    assert "second" not in runs and runs["sft-direct-complete-full-hedge"].resample is not None


def test_a_resample_without_its_run_is_refused(tmp_path: Path, tiny: Any, family: Any) -> None:
    cases = {row["case_id"] for row in tiny.pick("complete")}
    family(tmp_path / "out", cases, cases)
    shutil.rmtree(tmp_path / "out" / "sft-direct-complete-full-hedge")
    with pytest.raises(UserError, match="sft-direct-complete-full-hedge-resample: repeats a run that is not among"):
        load(tmp_path / "out", tiny)


def test_a_resample_with_the_seeds_of_its_run_is_refused(tmp_path: Path, tiny: Any, family: Any) -> None:
    cases = {row["case_id"] for row in tiny.pick("complete")}
    family(tmp_path / "out", cases, cases, base_seed=124)
    with pytest.raises(UserError, match=r"-resample: item .*\.r1 has the seed of sft-direct-complete-full-hedge"):
        load(tmp_path / "out", tiny)


def test_an_unknown_holdout_is_named_in_one_line(tmp_path: Path, tiny: Any, agents: Any) -> None:
    tiny.run(tmp_path / "out", "complete", agents["coherent"], "sft-x", adapter="a", holdout="full-moon")
    with pytest.raises(
        UserError, match=r"run sft-x, split test: no framing holdout 'full-moon'; there are full-prot"
    ) as error:
        load(tmp_path / "out", tiny)
    assert "\n" not in str(error.value)
