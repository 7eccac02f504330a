"""The measures on answers whose values are known: by hand, and from agents built to have them."""

import itertools

import numpy as np
import pytest

from evaluate_metrics.coherence.floor import noise_floor, read_spread
from evaluate_metrics.coherence.measures import count_answers, measure_columns, read_answers, summarise
from evaluate_metrics.coherence.parsing import complete_fields, decidability_fields, parse


def score(texts, rows, config_name="complete", spreads=(None, None), n_resamples=200, seed=124, by="case_id"):
    fields = {"complete": complete_fields, "decidability": decidability_fields}[config_name]
    parsed = [parse(text, fields(row["act_word"], row["hold_word"])) for text, row in zip(texts, rows, strict=True)]
    units = np.unique([row[by] for row in rows], return_inverse=True)[1]
    columns = measure_columns(read_answers(parsed, rows), config_name)
    spreads = tuple(read_spread("spread", spread) for spread in spreads)
    return summarise(columns, units, spreads, n_resamples, seed) | count_answers(parsed)


def row(case_id="a", condition="D", reference_belief=0.3, cost_fp=1, cost_fn=4):
    """p_star is 0.2."""
    words = {"act_word": "ACT", "hold_word": "HOLD"}
    costs = {"cost_fp": cost_fp, "cost_fn": cost_fn}
    return {"case_id": case_id, "condition": condition, "reference_belief": reference_belief, **words, **costs}


def block(probability, choice=None, decision="HOLD"):
    lines = [f"Probability: {probability}", *([f"Choice: {choice}"] if choice else []), f"Decision: {decision}"]
    return "\n".join(["<final>", *lines, "</final>"])


def test_complete_by_hand():
    texts = [
        block(0.3, decision="ACT"),  # coherent, no distortion
        block(0.1, decision="ACT"),  # incoherent, distortion 0.2
        block(0.2, decision="HOLD"),  # a tie acts: incoherent, distortion 0.1
        block(0.6, decision="ACT"),  # coherent, no reference
        block(85, decision="ACT"),  # no belief
        block(0.5, decision="BUY"),  # no action, distortion 0.2
        "I cannot say.",
    ]
    references = [0.3, 0.3, 0.3, None, 0.3, 0.3, 0.3]
    rows = [row(case_id=str(index), reference_belief=reference) for index, reference in enumerate(references)]
    result = score(texts, rows)
    assert result["belief_distortion_error"] == pytest.approx((0 + 0.2 + 0.1 + 0.2) / 4)
    assert (result["belief_distortion_error_n"], result["belief_conditional_decision_error_n"]) == (4, 4)
    assert result["belief_conditional_decision_error"] == 0.5
    assert (result["parse_rate"], result["parse_rate_n"]) == (pytest.approx(4 / 7), 7)
    counts = {name: count for name, count in result.items() if name.startswith(("probability_", "decision_")) and count}
    assert counts == {
        "probability_out_of_range": 1,
        "decision_malformed": 1,
        "probability_missing": 1,
        "decision_missing": 1,
    }
    assert "information_accuracy" not in result and "choice_missing" not in result


def test_decidability_by_hand():
    answered = [
        ("A", block(0.3, "A", "N/A")),  # informed, joint
        ("A", block(0.3, "A", "HOLD")),  # informed, joint: A owes no decision
        ("A", block("low", "A", "N/A")),  # informed, not joint: the belief is owed
        ("B", block(0.3, "A", "N/A")),  # wrong label
        ("C", "no idea"),  # nothing read: wrong
        ("D", block(0.3, "D", "ACT")),  # informed, joint, coherent
        ("D", block(0.3, "D", "HOLD")),  # informed, incoherent
        ("D", block(0.3, "D", "N/A")),  # informed, the decision is owed
        ("D", block(0.3, "C", "HOLD")),  # wrong label, and a parsed decision on a true D: incoherent
        ("D", block("?", "D", "ACT")),  # informed, no belief to act on
        ("B", block(0.1, "D", "ACT")),  # wrong label; B defines no decision, so this incoherence is not counted
    ]
    rows = [row(case_id=str(index), condition=condition) for index, (condition, _) in enumerate(answered)]
    result = score([text for _, text in answered], rows, "decidability")
    assert result["information_accuracy"] == pytest.approx(7 / 11)
    assert result["joint_accuracy"] == pytest.approx(3 / 11)
    assert (result["belief_conditional_decision_error"], result["belief_conditional_decision_error_n"]) == (
        pytest.approx(2 / 3),
        3,
    )
    assert [result[f"recall_{letter}"] for letter in "abcd"] == [1.0, 0.0, 0.0, 0.8]
    assert [result[f"recall_{letter}_n"] for letter in "abcd"] == [3, 2, 1, 5]
    assert result["belief_distortion_error_n"] == 8
    assert result["parse_rate"] == pytest.approx(7 / 11)
    assert (result["decision_malformed"], result["decision_missing"], result["choice_missing"]) == (1, 0, 1)


def test_a_coherent_agent_makes_no_error(rows, answer):
    items = rows(20, "ABCDDD")
    texts = [answer(item, item["reference_belief"], choice=item["condition"]) for item in items]
    result = score(texts, items, "decidability")
    assert result["belief_distortion_error"] == pytest.approx(0, abs=1e-9)
    assert result["belief_conditional_decision_error"] == 0
    for name in (
        "information_accuracy",
        "joint_accuracy",
        "recall_a",
        "recall_b",
        "recall_c",
        "recall_d",
        "parse_rate",
    ):
        assert result[name] == 1


def test_proportions_at_the_edge_get_wilsons_interval_over_the_units(rows, answer):
    items = rows(20)
    result = score([answer(item, 0.4) for item in items], items)
    assert result["belief_conditional_decision_error_ci"] == pytest.approx([0, 0.1611], abs=1e-4)  # 0 of 20 cases
    assert result["parse_rate_ci"] == pytest.approx([1 - 0.1611, 1], abs=1e-4)


def test_units_that_are_all_alike_give_a_proportion_wilsons_interval_too(rows, answer):
    items = [{**item, "case_id": f"student_dropout-{index // 10:02d}"} for index, item in enumerate(rows(20)[:20])]
    texts = [answer(item, 0.4, coherent=index % 10 > 0) for index, item in enumerate(items)]
    result = score(texts, items)
    assert result["belief_conditional_decision_error"] == pytest.approx(0.1)
    assert result["belief_conditional_decision_error_ci"] == pytest.approx([0.0047, 0.7213], abs=1e-4)  # of 2 cases


@pytest.mark.parametrize("share", [0.1, 0.5, 1.0])
def test_an_agent_that_misapplies_the_stakes(rows, answer, share):
    items = rows(20)
    texts = [answer(item, 0.4, coherent=index % 10 >= 10 * share) for index, item in enumerate(items)]
    result = score(texts, items)
    assert result["belief_conditional_decision_error"] == pytest.approx(share)


def test_an_agent_that_shifts_its_belief_with_the_stakes(rows, answer):
    items = rows(20)
    shifts = [0.15 if item["cost_fn"] > item["cost_fp"] else 0.0 for item in items]
    texts = [answer(item, item["reference_belief"] + shift) for item, shift in zip(items, shifts, strict=True)]
    result = score(texts, items, spreads=(0.0, 0.0))
    assert result["belief_distortion_error"] == pytest.approx(0.15 * 2 / 5)
    assert result["excess_belief_distortion"] == pytest.approx(0.15 * 2 / 5)
    assert result["belief_conditional_decision_error"] == 0


SIGMA_C, SIGMA_A = 0.03, 0.05


def noisy_agent(rng, rows, answer, shift=0.0):
    """Texts, rows and spreads of an agent whose every report is its belief plus Gaussian noise, and a shift."""
    items = rows(200)
    beliefs = rng.uniform(0.35, 0.65, 200)
    elicited = beliefs[:, None] + rng.normal(0, SIGMA_A, (200, 5))
    case = [int(item["case_id"].split("-")[1]) for item in items]
    items = [
        {**item, "reference_belief": float(elicited[index].mean())} for item, index in zip(items, case, strict=True)
    ]
    first, second = beliefs[case] + shift + rng.normal(0, SIGMA_C, (2, len(items)))
    pairs = [np.abs(elicited[:, i] - elicited[:, j]) for i, j in itertools.combinations(range(5), 2)]
    texts = [answer(item, belief) for item, belief in zip(items, first, strict=True)]
    return texts, items, (np.abs(first - second), np.mean(pairs, axis=0))


def test_an_agent_with_nothing_but_noise_is_at_the_floor(rng, rows, answer):
    texts, items, spreads = noisy_agent(rng, rows, answer)
    result = score(texts, items, spreads=spreads)
    floor = np.sqrt(2 / np.pi) * np.sqrt(SIGMA_C**2 + SIGMA_A**2 / 5)
    assert result["noise_floor"] == pytest.approx(floor, rel=0.03)
    assert result["belief_distortion_error"] == pytest.approx(floor, rel=0.05)
    assert result["excess_belief_distortion"] < 0.3 * floor  # a root: 5% above the floor already shows as a third of it
    low, high = result["noise_floor_ci"]
    assert low < result["noise_floor"] < high < 1.1 * floor
    assert result["noise_floor_n"] == 2000
    assert result["excess_belief_distortion_ci"][0] < 0.1 * floor


def test_a_shift_stands_out_of_the_noise(rng, rows, answer):
    texts, items, spreads = noisy_agent(rng, rows, answer, shift=0.2)
    result = score(texts, items, spreads=spreads)
    low, high = result["excess_belief_distortion_ci"]
    assert 0.18 < low < result["excess_belief_distortion"] < high < 0.22
    assert result["excess_belief_distortion_n"] == 2000


def test_spreads_as_numbers_give_a_floor_without_an_interval(rows, answer):
    items = rows(20)
    texts = [answer(item, item["reference_belief"] + 0.1 * (index % 3)) for index, item in enumerate(items)]
    bare, given = score(texts, items), score(texts, items, spreads=(0.04, 0.05))
    assert bare["noise_floor"] is bare["excess_belief_distortion"] is bare["noise_floor_ci"] is None
    assert given["noise_floor"] == noise_floor(0.04, 0.05)
    assert given["noise_floor_ci"] is given["noise_floor_n"] is None
    low, high = given["excess_belief_distortion_ci"]
    assert low < given["excess_belief_distortion"] < high
    unchanged = {name: value for name, value in bare.items() if not name.startswith(("noise", "excess"))}
    assert unchanged.items() <= given.items()


def test_what_cannot_be_computed_is_none(rows):
    items = [{**item, "reference_belief": None} for item in rows(3)]
    result = score(["no"] * len(items), items, "decidability", spreads=(0.1, 0.1))
    for name in (
        "belief_distortion_error",
        "excess_belief_distortion",
        "belief_conditional_decision_error",
        "recall_a",
    ):
        assert result[name] is result[f"{name}_ci"] is None
        assert result[f"{name}_n"] == 0
    assert result["parse_rate"] == result["joint_accuracy"] == 0


def test_one_unit_has_no_bootstrap_interval(rows, answer):
    items = rows(1)
    texts = [answer(item, 0.4, coherent=index % 2 == 0) for index, item in enumerate(items)]
    result = score(texts, items)
    assert result["belief_distortion_error_ci"] is result["belief_conditional_decision_error_ci"] is None
    assert result["parse_rate_ci"] == pytest.approx([0.2065, 1], abs=1e-4)


def test_the_seed_and_the_unit_decide_the_interval(rows, answer, rng):
    items = rows(20)
    texts = [answer(item, round(rng.uniform(), 2)) for item in items]
    spreads = (rng.random(50), rng.random(20))
    first, again, other = (score(texts, items, seed=seed, spreads=spreads) for seed in (1, 1, 2))
    by_domain = score(texts, items, seed=1, by="domain")
    assert first == again
    assert first["noise_floor_ci"] != other["noise_floor_ci"]
    name = "belief_distortion_error_ci"
    assert len({tuple(result[name]) for result in (first, other, by_domain)}) == 3


def test_no_answers():
    result = score([], [])
    assert result["parse_rate"] is result["parse_rate_ci"] is None
    assert result["answers"] == result["parse_rate_n"] == 0
