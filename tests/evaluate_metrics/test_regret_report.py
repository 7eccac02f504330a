"""The report on known posteriors: pairs, numbers and differences as the metric gives them, the same files each time."""

from __future__ import annotations

import csv
import json
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from builders.artifacts import Artifact, resolve
from builders.cli import run as run_command
from builders.errors import UserError
from evaluate_metrics.__main__ import main
from evaluate_metrics.coherence.decisions import paired_differences, read_decisions, summarise_decisions
from evaluate_metrics.coherence.parsing import decision_fields, elicitation_fields, parse
from evaluate_metrics.regret_report import FILES, TABLES, RegretReport, write_regret_report
from evaluate_metrics.regret_runs import System, load_answers, system_names
from evaluate_metrics.regret_scores import HELD_OUT, TRAINED, Scored, Settings, trained_losses
from evaluate_metrics.runs import Identity
from tests.evaluate_metrics.regret_tiny import (
    Agent,
    Row,
    Tiny,
    bayes,
    believing,
    contrary,
    deluded,
    elsewhere,
    mumbling,
    posterior,
    write_tiny,
)

SETTINGS = Settings(n_resamples=50, trained=(2, 4, 6, 8))
FEW = Settings(n_resamples=5)
PARTS = ("total_regret", "belief_loss", "optimisation_residual")


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory, hf_caches: dict[str, str]) -> Tiny:
    return write_tiny(tmp_path_factory.mktemp("known") / "posterior-tiny")


@pytest.fixture(scope="module")
def outputs(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    """A deluded base model and its adapters, one of each kind; the base also guided, on synthetic, and on P1's task."""
    folder = tmp_path_factory.mktemp("known") / "outputs"
    tiny.system(folder, deluded)
    tiny.system(folder, deluded, config="synthetic")
    tiny.system(folder, bayes, "sequential")
    tiny.system(folder, contrary, "belief-only")
    tiny.system(folder, believing(elsewhere, posterior), "decision-only")
    tiny.system(folder, mumbling, "separate")
    for form in ("belief", "independent", "two_turn"):
        tiny.run(folder, f"weather-{form}", contrary, f"base-guided-cot-weather-{form}", guided=True)
    tiny.run(folder, "elicitation", bayes, rows=tiny.pick("weather-belief"))
    return resolve(str(folder), "dataset")


@pytest.fixture(scope="module")
def report(tiny: Tiny, outputs: Artifact, tmp_path_factory: pytest.TempPathFactory) -> RegretReport:
    return write_regret_report([outputs], tiny.artifact, tmp_path_factory.mktemp("known") / "report", SETTINGS)


def of(report: RegretReport, title: str, form: str = "independent", config: str = "weather") -> Scored:
    found = [
        s for s in report.scored if (s.answered.title, s.answered.form, s.answered.config) == (title, form, config)
    ]
    assert len(found) == 1
    return found[0]


def by_hand(tiny: Tiny, agent: Agent, form: str, config: str = "weather") -> Any:
    """The decisions of an agent beside its beliefs, without the report's code."""
    rows = tiny.pick(f"{config}-{form}")
    beliefs = {(row["instance_id"], row["ordering"]): agent(row) for row in tiny.pick(f"{config}-belief")}
    decided = [parse(agent(row), decision_fields(row["act_word"], row["hold_word"]), "stop") for row in rows]
    believed = [parse(beliefs[row["instance_id"], row["ordering"]], elicitation_fields(), "stop") for row in rows]
    return read_decisions(decided, believed, rows)


@pytest.mark.parametrize("form", ["independent", "two_turn"])
def test_regret_comes_from_where_it_was_put(report: RegretReport, form: str) -> None:
    parts = {each: [of(report, each, form).value(part) for part in PARTS] for each in ("base", "sequential")}
    assert parts["sequential"] == [0, 0, 0]
    total, belief, residual = parts["base"]
    assert total is not None and total > 0 and (belief, residual) == (total, 0)
    assert [of(report, "belief-only", form).value(part) for part in PARTS] == [total, 0, total]
    assert [of(report, "decision-only", form).value(part) for part in PARTS] == [0, total, -total]
    for loss in range(1, 10):
        assert of(report, "sequential", form).value(f"total_regret_t{loss}") == 0


@pytest.mark.parametrize("form", ["independent", "two_turn"])
def test_the_numbers_are_the_metrics(report: RegretReport, tiny: Tiny, form: str) -> None:
    agents = {"base": deluded, "separate": mumbling, "base (guided)": contrary}
    for title, agent in agents.items():
        decisions, scored = by_hand(tiny, agent, form), of(report, title, form)
        for name, losses in (("all", None), (TRAINED, (2, 4, 6, 8)), (HELD_OUT, (1, 3, 5, 7, 9))):
            expected = summarise_decisions(decisions, losses, 50)
            measures = [score.measure for score in scored.scores if score.slice == name]
            assert len(measures) == (37 if name == "all" else 7)
            for measure in measures:
                score = scored.get(measure, name)
                assert score is not None and score.value == expected[measure]
                assert [score.low, score.high] == (expected[f"{measure}_ci"] or [None, None])
                assert score.n == expected[f"{measure}_n"]


def test_synthetic_is_sliced_by_its_features(report: RegretReport, tiny: Tiny) -> None:
    scored = of(report, "base", "two_turn", "synthetic")
    assert scored.features == ("k=0", "k=3") and scored.counts["profiles"] == 4
    ks = [scored.value("total_regret", name) for name in scored.features]
    assert scored.value("total_regret") == pytest.approx(sum(k for k in ks if k is not None) / 2)
    assert (
        scored.value("total_regret") == summarise_decisions(by_hand(tiny, deluded, "two_turn", "synthetic"))[PARTS[0]]
    )


def test_differences_are_paired_and_below_zero_where_training_helped(report: RegretReport, tiny: Tiny) -> None:
    for title, agent in (("sequential", bayes), ("separate", mumbling)):
        expected = paired_differences(by_hand(tiny, deluded, "two_turn"), by_hand(tiny, agent, "two_turn"), None, 50)
        for difference in of(report, title, "two_turn").differences:
            if difference.slice == "all":
                key = f"{difference.measure}_difference"
                assert difference.value == expected[key] and difference.n == expected[f"{key}_n"]
                assert [difference.low, difference.high] == (expected[f"{key}_ci"] or [None, None])
    better = of(report, "sequential").difference("total_regret")
    assert better is not None and better.value is not None and better.high is not None and better.high < 0
    mumbled = of(report, "separate").difference("total_regret")
    assert mumbled is not None and mumbled.n == mumbled.n_system < mumbled.n_base == 36
    assert not of(report, "base").differences and not of(report, "base (guided)").differences
    assert of(report, "decision-only").difference("belief_loss").value == 0  # type: ignore[union-attr]
    assert {each.slice for each in of(report, "sequential").differences} == {"all", TRAINED, HELD_OUT}


def test_the_tables_are_tidy(report: RegretReport) -> None:
    tables = {name: list(csv.DictReader((report.folder / name).open())) for name in TABLES}
    key = ["model", "system", "guided", "config", "split", "format"]
    heads = {
        "regret.csv": [*key, "slice", "measure", "value", "low", "high", "n"],
        "differences.csv": [*key, "slice", "measure", "value", "low", "high", "n", "n_base", "n_system"],
        "counts.csv": [*key, "count", "value"],
    }
    assert {name: list(rows[0]) for name, rows in tables.items()} == heads
    for name, rows in tables.items():
        words = {
            tuple(row[column] for column in heads[name] if column in (*key, "slice", "measure", "count"))
            for row in rows
        }
        assert len(words) == len(rows), name
    unread = sum(int(row["value"]) for row in tables["counts.csv"] if row["count"] == "decision_missing")
    assert unread > 0 and {row["system"] for row in tables["counts.csv"] if row["value"] != "0"} >= {"separate"}


class Page(HTMLParser):
    """Collects tags; raises on a tag that is closed and not open."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in ("meta", "br", "link", "img"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_is_well_formed_and_escaped(report: RegretReport) -> None:
    page, text = Page(), report.page.read_text()
    page.feed(text)
    assert not page.open and page.tags.count("svg") == 5 and page.tags.count("article") == 5
    assert {"script", "link", "img", "iframe", "object"}.isdisjoint(page.tags)
    assert not re.search(r"url\((?!#)|@import|https?://", text)
    assert "&lt;script&gt;alert(1)" in text and "What training changed" in text and "not trained on" in text


def test_files_are_all_there_and_the_same_the_second_time(
    report: RegretReport, tiny: Tiny, outputs: Artifact, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    absent = {"thresholds-clinical.svg", "thresholds-clinical.png"}
    assert {path.name for path in report.folder.iterdir()} == set(FILES) - absent
    out = tmp_path / "again"
    out.mkdir()
    (out / "thresholds-clinical.svg").write_text("from before")
    (out / "mine.txt").write_text("kept")
    command = ["regret", "--outputs", str(outputs.path), "--benchmark", str(tiny.artifact.path), "--out", str(out)]
    command += ["--n-resamples", "50", "--trained-thresholds", "0.2,0.4,0.6,0.8"]
    monkeypatch.setattr(sys, "argv", ["evaluate_metrics", *command])
    assert main() == 0
    assert capsys.readouterr().out == f"{report.table}\n{out / 'regret.html'}\n"
    assert {path.name for path in out.iterdir()} == {*set(FILES) - absent, "mine.txt"}
    for path in report.files:
        assert (out / path.name).read_bytes() == path.read_bytes(), path.name
    record = json.loads((out / "regret.json").read_text())
    assert record["trained_thresholds"] == [0.2, 0.4, 0.6, 0.8] and len(record["outputs"][0]) == 22


def test_what_has_no_belief_is_left_out_and_said(tiny: Tiny, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    tiny.system(folder, bayes)
    tiny.run(folder, "weather-independent", bayes, "adapter-x", adapter="tiny/x", adapter_revision="a0")
    tiny.run(folder, "synthetic-belief", bayes)
    some = tiny.pick("weather-belief")[1:]
    tiny.run(folder, "weather-belief", bayes, "adapter-y-belief", adapter="tiny/y", adapter_revision="a0", rows=some)
    tiny.run(folder, "weather-two_turn", bayes, "adapter-y", adapter="tiny/y", adapter_revision="a0")
    report = write_regret_report([resolve(str(folder), "dataset")], tiny.artifact, tmp_path / "r", FEW)
    assert set(report.notes) == {
        "adapter-x: left out, x has no run weather-belief, split test",
        "adapter-y: 9 of 36 decisions left out, adapter-y-belief lacks their belief",
        "base-cot-synthetic-belief: left out, no decisions go with its beliefs",
    }
    assert len(of(report, "y", "two_turn").answered.rows) == 27
    assert "x has no run weather-belief" in report.page.read_text()
    assert of(report, "y", "two_turn").difference("parse_rate").n_base == 27  # type: ignore[union-attr]


def test_an_adapter_without_its_base_has_no_differences(tiny: Tiny, tmp_path: Path) -> None:
    tiny.system(tmp_path / "out", bayes, "x", guided=True)
    tiny.system(tmp_path / "out", bayes)
    report = write_regret_report([resolve(str(tmp_path / "out"), "dataset")], tiny.artifact, tmp_path / "r", FEW)
    assert len(report.notes) == 2 and "no differences, its base model" in report.notes[0]
    assert "x (guided)" in report.table and not (report.folder / "differences.svg").exists()


def test_a_base_that_answered_other_items_has_no_differences_to_give(tiny: Tiny, tmp_path: Path) -> None:
    first = tiny.pick("weather-belief")[0]["instance_id"]
    for form in ("belief", "independent"):
        rows = tiny.pick(f"weather-{form}")
        ours, theirs = ([row for row in rows if (row["instance_id"] == first) == base] for base in (True, False))
        tiny.run(tmp_path / "out", f"weather-{form}", bayes, rows=ours)
        tiny.run(
            tmp_path / "out", f"weather-{form}", bayes, f"x-{form}", rows=theirs, adapter="x", adapter_revision="a"
        )
    report = write_regret_report([resolve(str(tmp_path / "out"), "dataset")], tiny.artifact, tmp_path / "r", FEW)
    assert report.notes == ("x-independent: no differences, its base model did not answer these items in the same way",)
    assert of(report, "x").difference("total_regret").n == 0  # type: ignore[union-attr]
    assert not (report.folder / "differences.svg").exists()


def outside(row: Row) -> Row:
    return {**row, "item_id": f"{row['item_id']}x"}


@pytest.mark.parametrize(
    ("task", "change", "message"),
    [
        ("weather-belief", outside, r"item .*\.belief\.o1x is not in the benchmark"),
        ("weather-two_turn", None, r"says task weather-belief, but item .*\.two_turn\.\S+ is not of that format"),
        ("clinical-belief", None, r"no config 'clinical'"),
        ("elicitation", None, r"no run of a task with known posteriors"),
    ],
)
def test_foreign_outputs_are_refused_in_one_line(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any, task: str, change: Any, message: str
) -> None:
    rows = tiny.pick("weather-two_turn" if task == "weather-two_turn" else "weather-belief")
    said = "weather-belief" if task == "weather-two_turn" else task
    tiny.run(tmp_path / "out", said, bayes, rows=[change(row) for row in rows] if change else rows)
    words = ["--outputs", str(tmp_path / "out"), "--benchmark", str(tiny.artifact.path), "--out", str(tmp_path / "r")]
    monkeypatch.setattr(sys, "argv", ["evaluate_metrics", "regret", *words])
    with pytest.raises(SystemExit) as ended:
        run_command(main)
    printed = capsys.readouterr()
    assert ended.value.code == 2 and printed.out == "" and not (tmp_path / "r").exists()
    assert re.fullmatch(rf"error: [^\n]*{message}[^\n]*\n", printed.err), printed.err


def test_two_runs_of_one_system_are_refused(tiny: Tiny, tmp_path: Path) -> None:
    tiny.run(tmp_path / "out", "weather-belief", bayes)
    tiny.run(tmp_path / "out", "weather-belief", bayes, "another")
    with pytest.raises(
        UserError, match="another and base-cot-weather-belief are both weather-belief of the same system"
    ):
        load_answers([resolve(str(tmp_path / "out"), "dataset")], tiny.artifact)


def test_settings_and_folders_that_make_no_sense_are_refused(tiny: Tiny, outputs: Artifact, tmp_path: Path) -> None:
    for text in ("0.25", "2", "", "0.2;0.4", "nan", ",".join(f"0.{i}" for i in range(1, 10))):
        with pytest.raises(UserError, match="thresholds"):
            trained_losses(text)
    with pytest.raises(UserError, match="0 bootstrap resamples"):
        write_regret_report([outputs], tiny.artifact, tmp_path / "r", Settings(0))
    (tmp_path / "p1").mkdir()
    (tmp_path / "p1" / "report.json").write_text("{}")
    with pytest.raises(UserError, match="holds another report"):
        write_regret_report([outputs], tiny.artifact, tmp_path / "p1", FEW)


def test_names_say_no_more_than_they_must() -> None:
    def system(model: str, revision: str, adapter: str | None, guided: bool, style: str = "cot") -> System:
        return System(Identity(model, revision, adapter, adapter and "a0", guided), style)

    base, adapter = system("org/m", "r", None, False), system("org/m", "r", "org/seq", False)
    guided, direct = system("org/m", "r", None, True), system("org/m", "r", "org/seq", False, "direct")
    names = system_names({base: "base", adapter: "seq", guided: "base"})
    assert [names[each] for each in (base, adapter, guided)] == [
        ("base", "base"), ("seq", "seq"), ("base", "base (guided)"),
    ]  # fmt: skip
    assert system_names({adapter: "seq", direct: "seq"})[direct].title == "seq (direct)"
    other = system("org/n", "r", None, False)
    assert system_names({base: "base", other: "base"})[other] == ("base", "n: base")
    newer = system("org/m", "s", None, False)
    assert system_names({base: "base", newer: "base"})[newer].label == "base (cot, s, None@None)"
