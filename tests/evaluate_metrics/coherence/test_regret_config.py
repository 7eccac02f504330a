"""The metric's config "regret" as people meet it: through `evaluate.load`, fed in each of evaluate's ways."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import datasets
import evaluate
import pytest

FOLDER = Path(__file__).parents[3] / "evaluate_metrics" / "coherence"
PARTS = ("total_regret", "belief_loss", "optimisation_residual")
MEASURES = (
    *(*PARTS, "belief_error", "belief_score", "decision_accuracy", "parse_rate"),
    *("single_switch_rate", "revealed_belief_distance", "revealed_belief_error"),
    *(f"{name}_t{loss}" for name in PARTS for loss in range(1, 10)),
)


@pytest.fixture
def metric(tmp_path):
    return lambda config_name="regret": evaluate.load(str(FOLDER), config_name, cache_dir=str(tmp_path))


@pytest.fixture
def answered(problems, decide, report, rng):
    """What `compute` takes: 10 instances in two orderings, beliefs off by a little, some answers unreadable."""
    rows = problems([round(rng.uniform(0.02, 0.98), 2) for _ in range(10)], orderings=2)
    beliefs = [report(round(min(max(row["posterior"] + rng.normal(0, 0.2), 0), 1), 2)) for row in rows]
    decisions = [decide(row, row["posterior"]) for row in rows]
    decisions[3], decisions[40], decisions[41], beliefs[7] = "", "I don't know", None, None
    return {"predictions": decisions, "beliefs": beliefs, "references": rows}


def test_every_measure_with_its_interval_and_n(metric, answered):
    result = metric().compute(**answered, n_resamples=100)
    for name in MEASURES:
        low, high = result[f"{name}_ci"]
        assert low <= result[name] <= high and isinstance(result[f"{name}_n"], int)
    assert json.loads(json.dumps(result)) == result  # plain numbers, lists and None
    assert (result["answers"], result["beliefs"], result["instances"], result["profiles"]) == (180, 180, 10, 20)
    assert (result["decision_empty"], result["decision_missing"], result["probability_empty"]) == (2, 1, 1)
    assert (result["parse_rate"], result["total_regret_n"]) == (pytest.approx(176 / 180), 176)
    assert result["single_switch_rate_n"] == 18
    assert not {"belief_distortion_error", "noise_floor", "joint_accuracy"} & {*result}
    for end in ("", *(f"_t{loss}" for loss in range(1, 10))):
        total, loss, residual = (result[f"{name}{end}"] for name in PARTS)
        assert total == pytest.approx(loss + residual, abs=1e-12)


def test_a_dataset_and_rows_with_other_columns_score_alike(metric, answered):
    rows = answered["references"]
    read = ("instance_id", "ordering", "posterior", "cost_fp", "cost_fn", "act_word", "hold_word")
    results = [
        metric().compute(**{**answered, "references": references}, n_resamples=20)
        for references in (
            rows,
            [{name: row[name] for name in read} for row in rows],
            datasets.Dataset.from_list(rows),
            datasets.Dataset.from_list(rows).to_iterable_dataset(),
        )
    ]
    assert all(result == results[0] for result in results)


def test_every_way_of_feeding_scores_alike(metric, answered):
    decisions, beliefs, rows = (answered[name] for name in ("predictions", "beliefs", "references"))
    reasons = ["length" if index % 5 == 0 else None for index in range(180)]
    believed = ["length" if index % 7 == 0 else None for index in range(180)]

    def cut(texts, reasons):
        pairs = zip(texts, reasons, strict=True)
        return [text.removesuffix("\n</final>") if text and reason else text for text, reason in pairs]

    answered = {
        "predictions": cut(decisions, reasons),
        "beliefs": cut(beliefs, believed),
        "references": rows,
        "finish_reasons": reasons,
        "belief_finish_reasons": believed,
    }
    regret = metric()
    at_once = regret.compute(**answered, n_resamples=20)
    for start in range(0, 180, 70):
        regret.add_batch(**{name: values[start : start + 70] for name, values in answered.items()})
    in_batches = regret.compute(n_resamples=20)
    for each in zip(*answered.values(), strict=True):
        singular = ("prediction", "belief", "reference", "finish_reason", "belief_finish_reason")
        regret.add(**dict(zip(singular, each, strict=True)))
    one_by_one = regret.compute(n_resamples=20)
    assert at_once == in_batches == one_by_one
    assert at_once["decision_truncated"] > 0 < at_once["probability_truncated"]
    without = regret.compute(**{name: answered[name] for name in ("predictions", "beliefs", "references")})
    assert without["decision_truncated"] == without["probability_truncated"] == 0


def test_arguments_reach_their_places(metric, answered):
    regret = metric()
    result, again = (regret.compute(**answered, n_resamples=50, unit=unit) for unit in (None, "instance"))
    assert result == again
    assert regret.compute(**answered, n_resamples=50, seed=1)["belief_loss_ci"] != result["belief_loss_ci"]
    odd, even = [1, 3, 5, 7, 9], (2, 4, 6, 8)
    trained, held_out = (regret.compute(**answered, n_resamples=50, thresholds=each) for each in (odd, even))
    assert trained["total_regret_n"] + held_out["total_regret_n"] == result["total_regret_n"]
    assert trained["parse_rate_n"] == 100 and held_out["parse_rate_n"] == 80
    for name in ("total_regret_t2", "single_switch_rate", "answers"):
        assert trained[name] == held_out[name] == result[name]


def test_rows_without_an_ordering_are_one(metric, problems, decide, report):
    rows = [{key: row[key] for key in row if key != "ordering"} for row in problems([0.34, 0.6])]
    call = {"predictions": [decide(row, 0.5) for row in rows], "beliefs": [report(0.5)] * 18}
    assert metric().compute(**call, references=rows)["profiles"] == 2
    with pytest.raises(ValueError, match=r"references\[9\]: instance, ordering and costs are those of references\[0\]"):
        metric().compute(**call, references=rows[:9] * 2)


BAD_ROWS = {
    "cost_fp": ({"cost_fp": 0}, r"references\[7\]: cost_fp must be a finite number above 0, got 0"),
    "no cost": ({"cost_fn": None}, r"references\[7\]: column 'cost_fn' is missing; 'regret' needs it in every row"),
    "posterior": ({"posterior": 34}, r"references\[7\]: posterior must be in \[0, 1\], got 34"),
    "NaN": ({"posterior": float("nan")}, r"references\[7\]: posterior must be in \[0, 1\], got nan"),
    "no posterior": ({"posterior": None}, r"references\[7\]: column 'posterior' is missing"),
    "another posterior": ({"posterior": 0.999}, r"references\[7\]: posterior is 0.999, but .* in references\[0\]"),
    "no word": ({"act_word": None}, r"references\[7\]: column 'act_word' is missing"),
    "same words": ({"act_word": "HOLD", "hold_word": "Hold"}, r"references\[7\]: act_word and hold_word must differ"),
    "no instance": ({"instance_id": None}, r"references\[7\]: column 'instance_id' is missing; the bootstrap"),
    "repeated": ({"cost_fp": 1, "cost_fn": 9}, r"references\[7\]: instance, ordering and costs .* references\[0\]"),
}


@pytest.mark.parametrize("name", BAD_ROWS)
def test_a_bad_row_is_named(metric, answered, name):
    change, message = BAD_ROWS[name]
    rows = answered["references"]
    broken = [*rows[:7], {**rows[7], **change}, *rows[8:]]
    regret = metric()
    for references in (broken, datasets.Dataset.from_list(broken)):
        with pytest.raises(ValueError, match=message):
            regret.compute(**{**answered, "references": references})
    assert regret.compute(**answered, n_resamples=5)["answers"] == 180


def test_bad_calls_are_refused_before_anything_is_stored(metric, answered):
    regret = metric()
    calls = [
        ({"beliefs": None}, "config 'regret' needs beliefs"),
        ({"beliefs": answered["beliefs"][:-1]}, "179 beliefs for 180 references: row 179 has no counterpart"),
        ({"beliefs": "0.3"}, "beliefs must be a list of texts"),
        ({"beliefs": [*answered["beliefs"][:-1], 0.3]}, r"beliefs\[179\] must be a text or None, got float"),
        ({"belief_finish_reasons": ["stop"]}, "1 belief_finish_reasons for 180 references"),
        ({"predictions": answered["predictions"][1:]}, "179 predictions for 180 references"),
        ({"references": None}, "come together"),
        ({"references": datasets.Dataset.from_dict({"x": [1] * 180})}, "none of the columns instance_id, ordering"),
        ({"unit": "case"}, "unit must be one of instance, got 'case'"),
        ({"thresholds": [0.3]}, "thresholds must be some of the cost_fp values 1 to 9"),
        ({"decision_spread": 0.1}, "config 'regret' has no argument decision_spread"),
        ({"n_resamples": 0}, "n_resamples must be at least 1"),
    ]
    for change, message in calls:
        with pytest.raises(ValueError, match=message):
            regret.compute(**{**answered, **change})
        assert len(regret) == 0


@pytest.mark.parametrize("config_name", ["complete", "decidability"])
def test_the_other_configs_have_none_of_its_arguments(metric, rows, answer, config_name):
    items = rows(2)
    call = {"predictions": [answer(item, 0.4) for item in items], "references": items}
    coherence = metric(config_name)
    for change in ({"beliefs": ["0.3"] * 20}, {"belief_finish_reasons": ["stop"] * 20}, {"thresholds": [1]}):
        with pytest.raises(ValueError, match=f"config '{config_name}' has no argument {next(iter(change))}"):
            coherence.compute(**call, **change)
    with pytest.raises(ValueError, match="has no argument beliefs"):
        coherence.add_batch(**call, beliefs=["0.3"] * 20)
    with pytest.raises(ValueError, match="has no argument belief"):
        coherence.add(prediction="", reference=items[0], belief="0.3")
    assert len(coherence) == 0 and not {"beliefs", "instances"} & {*coherence.compute(**call, n_resamples=5)}


def test_no_answers(metric):
    result = metric().compute(predictions=[], references=[], beliefs=[])
    assert result["answers"] == result["beliefs"] == result["instances"] == 0
    assert all(result[name] is result[f"{name}_ci"] is None for name in MEASURES)


COPIED = """
import json, sys, evaluate
row = {"instance_id": "a", "posterior": 0.6, "cost_fp": 2, "cost_fn": 8, "act_word": "ACT", "hold_word": "HOLD"}
metric = evaluate.load("elsewhere/coherence", "regret")
text, belief = "<final>\\nDecision: HOLD\\n</final>", "<final>\\nProbability: 0.1\\n</final>"
print(json.dumps(metric.compute(predictions=[text], references=[row], beliefs=[belief], n_resamples=10)))
print("evaluate_metrics" in sys.modules)
"""


def test_it_works_offline_from_a_folder_copied_elsewhere(tmp_path):
    shutil.copytree(FOLDER, tmp_path / "elsewhere" / "coherence", ignore=shutil.ignore_patterns("__pycache__"))
    environment = {key: os.environ[key] for key in ("PATH", "LANG") if key in os.environ}
    environment |= {"HOME": str(tmp_path), "HF_HOME": str(tmp_path / "hf"), "HF_MODULES_CACHE": str(tmp_path / "m")}
    environment |= {"HF_HUB_OFFLINE": "1", "HF_EVALUATE_OFFLINE": "1"}
    command = [sys.executable, "-c", COPIED]
    run = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    result, ours = run.stdout.strip().splitlines()[-2:]
    result = json.loads(result)
    assert [result[name] for name in PARTS] == pytest.approx([0.5, 0.5, 0.0])
    assert (result["belief_loss_t2"], result["parse_rate"], ours) == (pytest.approx(0.5), 1, "False")
