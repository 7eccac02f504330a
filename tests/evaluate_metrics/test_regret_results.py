"""An adapter's regret as evaluation results: read from the report's table, two formats in one list."""

from __future__ import annotations

import csv
import dataclasses
from pathlib import Path

import pytest
import yaml
from huggingface_hub import ModelCard, eval_result_entries_to_yaml, parse_eval_result_entries

from builders.artifacts import resolve
from builders.errors import UserError
from evaluate_metrics.regret_report import CONSOLE, RegretReport, write_regret_report
from evaluate_metrics.regret_results import MEASURES, regret_results
from evaluate_metrics.regret_scores import Score, Settings
from evaluate_metrics.results import with_results
from tests.evaluate_metrics.regret_tiny import bayes, contrary, deluded, write_tiny

Row = dict[str, str]

IDS = ("acme/posterior-decisions", None, "acme/coherence")


def row(measure: str, value: str, **changed: str) -> Row:
    usual = {
        "model": "m", "system": "weather-belief", "guided": "False", "config": "weather", "split": "test",
        "format": "independent", "slice": "all", "measure": measure, "value": value, "low": "0.1", "high": "0.25",
        "n": "1800",
    }  # fmt: skip
    assert list(usual) == [field.name for field in dataclasses.fields(Score)]
    return {**usual, **changed}


ROWS = [
    row("total_regret", "0.5", system="base"),
    row("total_regret", "0.11"),
    row("total_regret", "0.08", format="two_turn", low="", high=""),
    row("parse_rate", "0.99876"),
    row("total_regret", "0.2", slice="held_out_thresholds"),
    row("total_regret_t3", "0.3"),
    row("belief_error", "", n="0"),
    row("total_regret", "0.4", guided="True"),
    row("total_regret", "0.6", config="clinical"),
    row("total_regret", "0.7", split="validation"),
]


def test_both_formats_are_read_in_order_and_what_has_no_value_is_left_out() -> None:
    results, entries = regret_results(ROWS, "weather-belief", "weather", *IDS)
    assert [(each.metric_name, each.metric_value) for each in results] == [
        ("parse rate, independent", 0.9988), ("total regret, independent", 0.11), ("total regret, two-turn", 0.08),
    ]  # fmt: skip
    words = {
        (r.task_type, r.task_name, r.dataset_name, r.dataset_config, r.dataset_split, r.metric_config) for r in results
    }
    assert words == {("text-generation", "weather, free decoding", "Posterior Decisions", "weather", "test", "regret")}
    assert {(r.dataset_type, r.dataset_revision, r.metric_type) for r in results} == {IDS}
    assert [(each.task_id, each.value) for each in entries] == [
        ("weather_independent_parse_rate", 0.9988), ("weather_independent_total_regret", 0.11),
        ("weather_two_turn_total_regret", 0.08),
    ]  # fmt: skip
    assert [each.notes for each in entries[1:]] == [
        "independent decisions, free decoding, test split, n = 1,800, 95% interval 0.1000 to 0.2500",
        "two-turn decisions, free decoding, test split, n = 1,800",
    ]
    written = eval_result_entries_to_yaml(entries)
    assert parse_eval_result_entries(yaml.safe_load(yaml.safe_dump(written))) == entries


def test_guided_answers_count_where_there_are_no_free_ones_and_say_so() -> None:
    guided = [each for each in ROWS if each["guided"] == "True"]
    ((result,), (entry,)) = regret_results(guided, "weather-belief", "weather", *IDS)
    assert (result.metric_value, result.task_name) == (0.4, "weather, guided decoding")
    assert str(entry.notes).startswith("independent decisions, guided decoding")


def test_another_split_is_given_by_name() -> None:
    ((result,), _) = regret_results(ROWS, "weather-belief", "weather", *IDS, split="validation")
    assert (result.metric_value, result.dataset_split) == (0.7, "validation")


@pytest.mark.parametrize(
    ("rows", "system", "task", "message"),
    [
        (ROWS, "weather-decision", "weather", "no system 'weather-decision' in the table; there are base, w"),
        ([], "weather-belief", "weather", "no system 'weather-belief' in the table; there are none"),
        ([*ROWS, row("parse_rate", "1", model="n")], "weather-belief", "weather", "several systems .* of m, n"),
        (ROWS, "weather-belief", "synthetic", "'weather-belief' has no decisions on synthetic, split test"),
        ([{"system": "x"}], "x", "weather", "the table has no column 'model'; give the rows of a report's regret.csv"),
        ([row("parse_rate", "high")], "weather-belief", "weather", "parse_rate: value is 'high', not a number"),
    ],
)
def test_what_is_no_system_of_a_report_is_refused(rows: list[Row], system: str, task: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        regret_results(rows, system, task, *IDS)


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory, hf_caches: dict[str, str]) -> RegretReport:
    folder = tmp_path_factory.mktemp("known")
    tiny = write_tiny(folder / "posterior")
    for config in ("weather", "synthetic"):
        tiny.system(folder / "outputs", deluded, config=config)
        tiny.system(folder / "outputs", contrary, "weather-belief", config)
    tiny.system(folder / "outputs", bayes, "weather-sequential")
    outputs = resolve(str(folder / "outputs"), "dataset")
    return write_regret_report([outputs], tiny.artifact, folder / "report", Settings(20, trained=(2, 4)))


def test_a_real_reports_system_has_all_its_measures_and_they_come_back_from_a_card(
    report: RegretReport, tmp_path: Path
) -> None:
    with (report.folder / "regret.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    results, entries = regret_results(rows, "weather-belief", "weather", *IDS)
    scored = {s.answered.form: s for s in report.scored if s.answered.label == "weather-belief"
              and s.answered.config == "weather"}  # fmt: skip
    expected = {
        f"{measure.replace('_', ' ')}, {form.replace('_', '-')}": round(scored[form].value(measure) or 0, 4)
        for form in ("independent", "two_turn")
        for measure in CONSOLE
    }
    assert {str(each.metric_name): each.metric_value for each in results} == expected
    assert len(results) == len(entries) == 2 * len(MEASURES) == len({each.task_id for each in entries})
    path = tmp_path / "README.md"
    path.write_text(with_results("---\nlicense: other\n---\n# An adapter\n", results, "agent"), encoding="utf-8")
    assert ModelCard.load(path).data.eval_results == results
