"""A run's measures as evaluation results: read from the report's table, put into a card that otherwise stays."""

import csv
import dataclasses
from pathlib import Path

import pytest
import yaml
from huggingface_hub import (
    EvalResult,
    ModelCard,
    eval_result_entries_to_yaml,
    parse_eval_result_entries,
)
from huggingface_hub.repocard_data import ModelCardData, model_index_to_eval_results

from builders.errors import UserError
from evaluate_metrics.report import Report
from evaluate_metrics.results import MEASURES, adapter_results, with_results
from evaluate_metrics.scores import Score

Row = dict[str, str]

RUN = "sft-direct-decidability-full-hedge"
IDS = ("acme/coherent-decisions", "5f0c" * 10, "acme/coherence")


def row(measure: str, value: str, **changed: str) -> Row:
    usual = {
        "run": RUN, "model": "m", "guided": "False", "task": "decidability", "style": "direct",
        "slice_kind": "overall", "slice": "all", "measure": measure, "value": value, "low": "0.1", "high": "0.25",
        "n": "3200",
    }  # fmt: skip
    assert list(usual) == [field.name for field in dataclasses.fields(Score)]
    return {**usual, **changed}


ROWS = [
    row("parse_rate", "0.98123456"),
    row("joint_accuracy", "0.198", low="", high=""),
    row("noise_floor", "", low="", high="", n="0"),
    row("decision_spread", "0.07"),
    row("joint_accuracy", "0.5", slice_kind="framing", slice="insurance"),
    row("joint_accuracy", "0.6", run="base-direct-decidability"),
]


def test_the_measures_of_all_answers_are_read_and_what_has_no_value_is_left_out() -> None:
    results, entries = adapter_results(ROWS, RUN, *IDS)
    assert [(each.metric_name, each.metric_value) for each in results] == [
        ("joint accuracy", 0.198), ("parse rate", 0.9812),
    ]  # fmt: skip
    assert {(r.dataset_type, r.dataset_revision, r.metric_type, r.metric_config) for r in results} == {
        (*IDS, "decidability")
    }
    assert {(r.task_type, r.task_name, r.dataset_config, r.dataset_split) for r in results} == {
        ("text-generation", "decidability, direct style, free decoding", "decidability", "test")
    }
    assert [(each.task_id, each.value) for each in entries] == [
        ("decidability_joint_accuracy", 0.198), ("decidability_parse_rate", 0.9812),
    ]  # fmt: skip
    assert [each.notes for each in entries] == [
        "direct style, free decoding, test split, n = 3,200",
        "direct style, free decoding, test split, n = 3,200, 95% interval 0.1000 to 0.2500",
    ]


def test_the_entries_are_those_of_the_hubs_format() -> None:
    written = eval_result_entries_to_yaml(adapter_results(ROWS, RUN, *IDS)[1])
    assert parse_eval_result_entries(yaml.safe_load(yaml.safe_dump(written))) == adapter_results(ROWS, RUN, *IDS)[1]
    without = adapter_results(ROWS, RUN, "acme/coherent-decisions", None, "acme/coherence")
    assert eval_result_entries_to_yaml(without[1])[0] == {
        "dataset": {"id": "acme/coherent-decisions", "task_id": "decidability_joint_accuracy"},
        "value": 0.198,
        "notes": "direct style, free decoding, test split, n = 3,200",
    }
    assert without[0][0].dataset_revision is None


@pytest.mark.parametrize("name", [RUN, f"{RUN}/test", f"outputs:{RUN}/test"])
def test_a_run_is_found_by_its_config_or_its_name(name: str) -> None:
    rows = [row("parse_rate", "0.5", run=name), row("parse_rate", "0.6", run=f"{RUN}/validation")]
    for asked in {RUN, name}:
        assert adapter_results(rows, asked, *IDS)[0][0].metric_value == 0.5
    [result] = adapter_results(rows, RUN, *IDS, split="validation")[0] if name != RUN else [None]
    assert result is None or (result.metric_value, result.dataset_split) == (0.6, "validation")


def test_guided_answers_say_so() -> None:
    results, entries = adapter_results([row("parse_rate", "1.0", guided="True")], RUN, *IDS)
    assert results[0].task_name == "decidability, direct style, guided decoding"
    assert str(entries[0].notes).startswith("direct style, guided decoding")


@pytest.mark.parametrize(
    ("rows", "run", "message"),
    [
        (ROWS, "sft-cot-complete", "no run 'sft-cot-complete' in the measures; there are sft-direct"),
        ([], RUN, "no run 'sft-direct-decidability-full-hedge' in the measures; there are none"),
        ([row("parse_rate", "1", run=f"{f}:{RUN}/test") for f in "ab"], RUN, f"several runs .* a:{RUN}/test, b:"),
        ([row("parse_rate", "1", task="elicitation")], RUN, "measures of the task 'elicitation', not of decisions"),
        ([{"run": RUN}], RUN, "the measures have no column 'slice_kind'"),
        ([row("parse_rate", "high")], RUN, "parse_rate: value is 'high', not a number"),
    ],
)  # fmt: skip
def test_what_is_no_run_of_a_report_is_refused(rows: list[Row], run: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        adapter_results(rows, run, *IDS)


def test_a_real_reports_run_has_all_its_measures(trained_report: Report) -> None:
    with (trained_report.folder / "measures.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    scored = next(each for each in trained_report.scored if each.run.name == RUN)
    results, _ = adapter_results(rows, RUN, *IDS)
    expected = {name: scored.value(name) for name in MEASURES if scored.value(name) is not None}
    assert {str(each.metric_name).replace(" ", "_"): each.metric_value for each in results} == {
        name: round(value or 0, 4) for name, value in expected.items()
    }
    assert len(expected) == len(MEASURES)


CARD = """\
---
# made by hand
base_model: "org/tiny"   # quoted
tags: [a, 'b']
license: other
text: |
  model-index: of a kind
model-index-of: x
---

# Title

---
model-index: not YAML
"""


@pytest.fixture
def results() -> list[EvalResult]:
    return adapter_results(ROWS, RUN, *IDS)[0]


def test_a_card_keeps_everything_else_to_the_byte(results: list[EvalResult]) -> None:
    text = with_results(CARD, results, "tiny-adapter")
    head, index, tail = text.partition("\nmodel-index:\n")
    before, after = CARD.split("\nmodel-index-of: x\n")
    assert head == f"{before}\nmodel-index-of: x" and index and tail.endswith(after)
    assert ModelCard(text).data.to_dict()["tags"] == ["a", "b"]


def test_the_results_come_back_from_the_card(results: list[EvalResult], tmp_path: Path) -> None:
    path = tmp_path / "README.md"
    path.write_text(with_results(CARD, results, "tiny-adapter"), encoding="utf-8")
    data = ModelCard.load(path).data
    assert isinstance(data, ModelCardData) and data.eval_results == results and data.model_name == "tiny-adapter"
    front = yaml.safe_load(path.read_text().split("---\n")[1])
    assert model_index_to_eval_results(front["model-index"]) == ("tiny-adapter", results)
    assert "null" not in str(front["model-index"]) and "None" not in str(front["model-index"])


def test_an_earlier_index_is_replaced_and_goes_with_no_results(results: list[EvalResult]) -> None:
    once = with_results(CARD, results, "tiny-adapter")
    assert with_results(once, results, "tiny-adapter") == once
    assert with_results(once, [], "tiny-adapter") == CARD
    middle = once.replace("license: other\n", "").replace("---\n\n# Title", "license: other\n---\n\n# Title")
    other = with_results(middle, results[:1], "other")
    assert ModelCard(other).data.model_name == "other" and ModelCard(other).data.eval_results == results[:1]
    assert "license: other\nmodel-index:\n- name: other\n" in other


def test_line_ends_stay(results: list[EvalResult]) -> None:
    text = with_results(CARD.replace("\n", "\r\n"), results, "tiny-adapter")
    assert text == with_results(CARD, results, "tiny-adapter").replace("\n", "\r\n")


@pytest.mark.parametrize(
    ("card", "message"),
    [
        ("# Title\n", "no YAML in front"),
        ("---\n- a\n---\n", "no mapping"),
        ("---\na: [\n---\n", "cannot be read"),
        ("---\nmodel-index: &x [{a: 1}]\nother: *x\n---\n", "cannot be read"),
        ("---\n{model-index: [], a: 1}\n---\n", "cannot be read"),
    ],
)
def test_a_card_that_cannot_be_changed_safely_is_refused(card: str, message: str, results: list[EvalResult]) -> None:
    with pytest.raises(UserError, match=message):
        with_results(card, results, "tiny-adapter")
