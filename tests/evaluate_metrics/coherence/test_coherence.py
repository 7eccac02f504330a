"""The metric as people meet it: through `evaluate.load`, fed in each of evaluate's ways."""

import doctest
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import datasets
import evaluate
import numpy as np
import pytest

FOLDER = Path(__file__).parents[3] / "evaluate_metrics" / "coherence"
MEASURES = ("belief_distortion_error", "noise_floor", "excess_belief_distortion", "belief_conditional_decision_error")
DECIDABILITY = ("information_accuracy", "joint_accuracy", "recall_a", "recall_b", "recall_c", "recall_d")


@pytest.fixture
def metric(tmp_path):
    return lambda config_name: evaluate.load(str(FOLDER), config_name, cache_dir=str(tmp_path))


@pytest.fixture
def scored(rows, answer, rng):
    """(predictions, references): 20 cases, all four conditions, beliefs off by a little, some answers unreadable."""
    items = rows(20, "ABCD")
    texts = [answer(item, round(rng.uniform(), 2), choice=item["condition"]) for item in items]
    texts[3], texts[10], texts[11] = "", "I don't know", None
    return texts, items


@pytest.mark.parametrize("config_name", ["complete", "decidability"])
def test_every_measure_with_its_interval_and_n(metric, scored, config_name):
    texts, items = scored
    result = metric(config_name).compute(
        predictions=texts, references=items, n_resamples=100, decision_spread=[0.1, 0.0], elicitation_spread=[0.1, 0.2]
    )
    expected = MEASURES + ("parse_rate",) + (DECIDABILITY if config_name == "decidability" else ())
    for name in expected:
        low, high = result[f"{name}_ci"]
        assert low <= result[name] <= high and isinstance(result[f"{name}_n"], int)
    assert not ({*DECIDABILITY} - {*expected}) & {*result}
    assert json.loads(json.dumps(result)) == result  # plain numbers, lists and None
    assert result["answers"] == 200
    assert (result["probability_empty"], result["probability_missing"]) == (2, 1)


def test_a_dataset_and_rows_with_other_columns_score_alike(metric, scored):
    texts, items = scored
    narrow = [{key: item[key] for key in item if key not in ("prompt", "item_id", "domain")} for item in items]
    results = [
        metric("decidability").compute(predictions=texts, references=references, n_resamples=50)
        for references in (
            items,
            narrow,
            datasets.Dataset.from_list(items),
            datasets.Dataset.from_list(items).to_iterable_dataset(),
        )
    ]
    assert all(result == results[0] for result in results)


def test_every_way_of_feeding_scores_alike(metric, scored):
    texts, items = scored
    reasons = ["length" if index % 5 == 0 else None for index in range(len(texts))]
    texts = [
        text if reason is None else text[: -len("\n</final>")] for text, reason in zip(texts, reasons, strict=True)
    ]
    coherence = metric("decidability")
    at_once = coherence.compute(predictions=texts, references=items, finish_reasons=reasons, n_resamples=50)
    for start in range(0, len(texts), 70):
        part = slice(start, start + 70)
        coherence.add_batch(predictions=texts[part], references=items[part], finish_reasons=reasons[part])
    in_batches = coherence.compute(n_resamples=50)
    for text, item, reason in zip(texts, items, reasons, strict=True):
        coherence.add(prediction=text, reference=item, finish_reason=reason)
    one_by_one = coherence.compute(n_resamples=50)
    assert at_once == in_batches == one_by_one
    assert at_once["decision_truncated"] > 0
    assert coherence.compute(predictions=texts, references=items, n_resamples=50)["decision_truncated"] == 0


def test_arrays_and_half_surrogates_are_texts(metric, rows, answer):
    items = rows(2)
    texts = np.array([answer(item, 0.4) for item in items])
    assert metric("complete").compute(predictions=texts, references=items, n_resamples=5)["parse_rate"] == 1
    torn = [text.replace("<final>", "\ud83d<final>") for text in texts.tolist()]
    assert metric("complete").compute(predictions=torn, references=items, n_resamples=5)["parse_rate"] == 1


def test_the_unit_decides_the_interval(metric, scored):
    texts, items = scored
    intervals = {
        tuple(metric("complete").compute(predictions=texts, references=items, unit=unit)["belief_distortion_error_ci"])
        for unit in ("case", "domain", "item")
    }
    assert len(intervals) == 3


def test_a_missing_reference_belief_leaves_the_rest(metric, rows, answer):
    items = [{key: item[key] for key in item if key != "reference_belief"} for item in rows(3)]
    items[0]["reference_belief"] = float("nan")  # as pandas has it
    result = metric("complete").compute(predictions=[answer(item, 0.4) for item in items], references=items)
    assert result["belief_distortion_error"] is None
    assert (result["belief_conditional_decision_error"], result["parse_rate"]) == (0, 1)


BAD_ROWS = {
    "cost_fp": ({"cost_fp": 0}, r"references\[7\]: cost_fp must be a finite number above 0, got 0"),
    "cost as text": ({"cost_fn": "10"}, r"references\[7\]: cost_fn must be a finite number"),
    "infinite": ({"cost_fn": float("inf")}, r"references\[7\]: cost_fn"),
    "belief": ({"reference_belief": 30}, r"references\[7\]: reference_belief must be in \[0, 1\] or null, got 30"),
    "condition": ({"condition": "E"}, r"references\[7\]: condition must be one of A, B, C, D, got 'E'"),
    "no condition": ({"condition": None}, r"references\[7\]: column 'condition' is missing"),
    "word": ({"act_word": " "}, r"references\[7\]: act_word must be a word"),
    "no word": ({"hold_word": None}, r"references\[7\]: column 'hold_word' is missing"),
    "same words": ({"act_word": "HOLD", "hold_word": "Hold"}, r"references\[7\]: act_word and hold_word must differ"),
    "no case": ({"case_id": None}, r"references\[7\]: column 'case_id' is missing"),
}


@pytest.mark.parametrize("name", BAD_ROWS)
def test_a_bad_row_is_named(metric, scored, name):
    texts, items = scored
    change, message = BAD_ROWS[name]
    broken = [*items[:7], {**items[7], **change}, *items[8:]]
    coherence = metric("decidability")
    for references in (broken, datasets.Dataset.from_list(broken)) if name not in ("cost as text",) else (broken,):
        with pytest.raises(ValueError, match=message):
            coherence.compute(predictions=texts, references=references)
    assert coherence.compute(predictions=texts, references=items, n_resamples=5)["answers"] == len(texts)


def test_bad_calls_are_refused_before_anything_is_stored(metric, scored):
    texts, items = scored
    coherence = metric("decidability")
    calls = [
        ({"references": items[:-1]}, "200 predictions for 199 references: row 199 has no counterpart"),
        ({"finish_reasons": ["stop"]}, "1 finish_reasons for 200 references"),
        ({"predictions": "text"}, "predictions must be a list of texts"),
        ({"predictions": [*texts[:-1], 3]}, r"predictions\[199\] must be a text or None, got int"),
        ({"references": [*items[:-1], "row"]}, r"references\[199\] must be a row"),
        ({"references": datasets.Dataset.from_dict({"x": [1] * 200})}, "none of the columns"),
        ({"references": None}, "come together"),
        ({"unit": "row"}, "unit must be one of case, domain, item, got 'row'"),
        ({"n_resamples": 0}, "n_resamples must be at least 1"),
        ({"decision_spread": 2}, "decision_spread must be"),
    ]
    for change, message in calls:
        with pytest.raises(ValueError, match=message):
            coherence.compute(**{"predictions": texts, "references": items, **change})
        assert len(coherence) == 0
    with pytest.raises(TypeError):
        coherence.compute(predictions=texts, references=items, resamples=5)


def test_an_unknown_config_is_refused_with_the_known_ones(metric):
    for config_name in ("accuracy", None):
        with pytest.raises(ValueError, match="complete, decidability, regret"):
            metric(config_name)


def test_the_printed_example_runs(monkeypatch, tmp_path):
    monkeypatch.chdir(FOLDER.parents[1])
    description = evaluate.load(str(FOLDER), "complete", cache_dir=str(tmp_path)).inputs_description
    test = doctest.DocTestParser().get_doctest(description, {}, "coherence", None, 0)
    runner = doctest.DocTestRunner()
    runner.run(test)
    assert runner.summarize() == (0, len(test.examples)) and len(test.examples) > 4


MODULES = (
    *("rule", "parsing", "resampling", "floor", "references", "measures"),
    *("regret", "revealed", "decisions", "coherence"),
)


@pytest.mark.parametrize("module", MODULES)
def test_the_docstrings_examples_run(module):
    loaded = __import__(f"evaluate_metrics.coherence.{module}", fromlist=[module])
    failed, _ = doctest.testmod(loaded)
    assert failed == 0


COPIED = """
import json, sys, evaluate
row = {"case_id": "a", "cost_fp": 1, "cost_fn": 4, "act_word": "ACT", "hold_word": "HOLD", "condition": "D"}
text = "<final>Probability: 0.3\\nChoice: D\\nDecision: ACT</final>"
for config_name in ("complete", "decidability"):
    metric = evaluate.load("elsewhere/coherence", config_name)
    result = metric.compute(predictions=[text], references=[{**row, "reference_belief": 0.2}], n_resamples=10)
    print(json.dumps(result))
print("evaluate_metrics" in sys.modules)
"""


def test_the_folder_works_when_copied_elsewhere(tmp_path):
    shutil.copytree(FOLDER, tmp_path / "elsewhere" / "coherence", ignore=shutil.ignore_patterns("__pycache__"))
    environment = {key: os.environ[key] for key in ("PATH", "LANG") if key in os.environ}
    environment |= {"HOME": str(tmp_path), "HF_HOME": str(tmp_path / "hf"), "HF_HUB_OFFLINE": "1"}
    environment |= {"HF_MODULES_CACHE": str(tmp_path / "modules")}
    command = [sys.executable, "-c", COPIED]
    run = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    *results, ours = run.stdout.strip().splitlines()[-3:]
    complete, decidability = map(json.loads, results)
    assert complete["belief_distortion_error"] == decidability["belief_distortion_error"] == pytest.approx(0.1)
    assert complete["parse_rate"] == decidability["joint_accuracy"] == 1
    assert ours == "False"
    copied = next((tmp_path / "modules").rglob("coherence.py")).parent
    assert {path.stem for path in copied.glob("*.py")} - {"__init__"} == set(MODULES)


def test_the_folder_imports_nothing_beyond_numpy_and_its_hosts():
    for path in FOLDER.glob("*.py"):
        for line in path.read_text().splitlines():
            if line.startswith(("import ", "from ")) and not line.startswith("from ."):
                top = line.split()[1].split(".")[0]
                hosts = {"numpy", "datasets", "evaluate"} if path.stem == "coherence" else {"numpy"}
                assert top in hosts or top in sys.stdlib_module_names, f"{path.name}: {line}"
