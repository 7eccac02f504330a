"""Regret over many answers: agents whose regret is known, a reference of plain loops, and differences of two runs."""

from collections import defaultdict
from statistics import mean

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluate_metrics.coherence.decisions import (
    check_losses,
    count_decisions,
    paired_differences,
    read_decisions,
    summarise_decisions,
)
from evaluate_metrics.coherence.parsing import decision_fields, elicitation_fields, parse
from evaluate_metrics.coherence.references import read_references

POSTERIORS = [0.02, 0.1, 0.26, 0.34, 0.5, 0.62, 0.7, 0.86, 0.98]  # three of them at a threshold
PARTS = ("total_regret", "belief_loss", "optimisation_residual")
POOLED = (*PARTS, "belief_error", "belief_score", "decision_accuracy", "parse_rate")
REVEALED = ("single_switch_rate", "revealed_belief_distance", "revealed_belief_error")


def parse_all(decisions, beliefs, rows):
    fields = [decision_fields(row["act_word"], row["hold_word"]) for row in rows]
    decided = [parse(*answer) for answer in zip(decisions, fields, strict=True)]
    return decided, [parse(text, elicitation_fields()) for text in beliefs]


def read(decisions, beliefs, rows):
    return read_decisions(*parse_all(decisions, beliefs, rows), read_references(rows, "regret"))


def score(decisions, beliefs, rows, losses=None, n_resamples=200, seed=124):
    return summarise_decisions(read(decisions, beliefs, rows), losses, n_resamples, seed)


@pytest.fixture
def agent(problems, decide, report):
    """agent(acts_on, reports, ...): (decisions, beliefs, rows) of one that acts on a belief and reports another."""

    def answer(acts_on, reports, orderings=2, posteriors=POSTERIORS):
        rows = problems(posteriors, orderings)
        decisions = [decide(row, acts_on(row["posterior"])) for row in rows]
        return decisions, [report(reports(row["posterior"])) for row in rows], rows

    return answer


def right(posterior):
    return posterior


def wrong(posterior):
    return round(1 - posterior, 3)


# --- Agents -----------------------------------------------------------------------------------------------------------


def test_a_bayes_agent_has_no_regret(agent):
    result = score(*agent(right, right))
    regrets = [result[f"{name}{end}"] for name in PARTS for end in ("", *(f"_t{loss}" for loss in range(1, 10)))]
    assert regrets == [0.0] * 30
    assert (result["decision_accuracy"], result["parse_rate"], result["single_switch_rate"]) == (1, 1, 1)
    assert (result["belief_error"], result["belief_score"]) == (0, 1)
    assert 0 < result["revealed_belief_distance"] < 0.05
    assert result["revealed_belief_error"] == pytest.approx(result["revealed_belief_distance"])
    assert result["total_regret_ci"] == [0, 0]
    assert result["decision_accuracy_ci"] == pytest.approx([1 - 0.2991, 1], abs=1e-4)  # Wilson, 9 of 9 instances
    assert (result["total_regret_n"], result["total_regret_t3_n"], result["single_switch_rate_n"]) == (162, 18, 18)


def test_right_beliefs_and_wrong_actions_are_all_residual(agent):
    result = score(*agent(wrong, right))
    assert result["belief_loss"] == result["belief_error"] == 0
    assert result["total_regret"] == result["optimisation_residual"] > 0.1
    assert result["total_regret_ci"] == result["optimisation_residual_ci"]
    assert result["single_switch_rate"] == 1  # it acts on a belief, but not on the one that it reports
    expected = mean(abs(wrong(p) - p) for p in POSTERIORS)
    assert result["revealed_belief_distance"] == pytest.approx(expected, abs=0.05)


def test_wrong_beliefs_and_actions_that_follow_are_all_belief_loss(agent):
    result = score(*agent(wrong, wrong))
    assert result["optimisation_residual"] == 0
    assert result["total_regret"] == result["belief_loss"] > 0.1
    assert result["belief_error"] == pytest.approx(mean(abs(1 - 2 * p) for p in POSTERIORS))
    assert result["belief_score"] == pytest.approx(mean(1 - (1 - 2 * p) ** 2 for p in POSTERIORS))
    assert result["revealed_belief_distance"] < 0.05 < 0.3 < result["revealed_belief_error"]


def test_an_agent_better_than_its_beliefs_has_a_residual_below_zero(agent):
    result = score(*agent(right, wrong))
    assert result["total_regret"] == 0 and result["decision_accuracy"] == 1
    assert result["optimisation_residual"] == -result["belief_loss"] < -0.1
    assert result["optimisation_residual_ci"][1] < 0


def test_an_agent_that_always_does_the_opposite(agent, problems, report):
    decisions, beliefs, rows = agent(right, right, orderings=1)
    opposite = {row["act_word"]: row["hold_word"] for row in rows} | {row["hold_word"]: row["act_word"] for row in rows}
    words = [text.split("Decision: ")[1].split("\n")[0] for text in decisions]
    result = score([f"<final>Decision: {opposite[word]}</final>" for word in words], beliefs, rows)
    regrets = [abs(10 * row["posterior"] - row["cost_fp"]) / max(row["cost_fp"], row["cost_fn"]) for row in rows]
    assert result["total_regret"] == result["optimisation_residual"] == pytest.approx(mean(regrets), abs=1e-12)
    # At the three ties either action is optimal. It acts beyond the threshold, so nothing is a switch but one action
    # throughout: below the lowest threshold and above the highest, at 0.02 and at 0.98.
    assert result["decision_accuracy"] == pytest.approx(3 / 81)
    assert (result["single_switch_rate"], result["single_switch_rate_n"]) == (pytest.approx(2 / 9), 9)
    assert result["revealed_belief_error"] == pytest.approx((abs(0.95 - 0.02) + abs(0.05 - 0.98)) / 2)


# --- A reference of plain loops ---------------------------------------------------------------------------------------


def noisy_answers(rng, problems, decide, report, n_instances=12, orderings=3, unread=0.15):
    """Decisions and beliefs with errors of both kinds, some of each not readable."""
    rows = problems(np.round(rng.uniform(0.02, 0.98, n_instances), 2).tolist(), orderings)
    decisions, beliefs = [], []
    for row in rows:
        reported = float(np.round(np.clip(row["posterior"] + rng.normal(0, 0.2), 0, 1), 2))
        held = float(np.clip(row["posterior"] + rng.normal(0, 0.05), 0, 1))
        decisions.append(decide(row, held) if rng.random() > unread else "I cannot say.")
        beliefs.append(report(reported) if rng.random() > unread else "Probability: high")
    return decisions, beliefs, rows


def by_loops(decisions, beliefs, rows, losses=range(1, 10)):
    """Every measure by dictionaries and loops: name -> (value, n, mean of each instance)."""
    cells = defaultdict(lambda: defaultdict(list))  # measure -> (instance, loss) -> values
    profiles = defaultdict(dict)
    for decision, belief, row in zip(decisions, beliefs, rows, strict=True):
        p, fp, fn = row["posterior"], row["cost_fp"], row["cost_fn"]
        act = {row["act_word"]: True, row["hold_word"]: False}.get(
            decision.split("Decision: ")[-1].removesuffix("\n</final>")
        )
        reported = float(belief.split("Probability: ")[1].split("\n")[0]) if "high" not in belief else None
        costs = {True: (1 - p) * fp, False: p * fn}
        best = 10 * p >= fp - 1e-8
        values = {"parse_rate": float(act is not None and reported is not None)}
        if act is not None:
            values["decision_accuracy"] = float(abs(costs[act] - min(costs.values())) < 1e-9)
        if reported is not None:
            values |= {"belief_error": abs(reported - p), "belief_score": 1 - (reported - p) ** 2}
        if act is not None and reported is not None:
            implied = 10 * reported >= fp - 1e-8
            both = [costs[act] - costs[best], costs[implied] - costs[best], costs[act] - costs[implied]]
            parts = dict(zip(PARTS, (difference / max(fp, fn) for difference in both), strict=True))
            values |= parts | {f"{name}_t{fp}": value for name, value in parts.items()}
        for name, value in values.items():
            if fp in losses or "_t" in name:
                cells[name][row["instance_id"], fp].append(value)
        profiles[row["instance_id"], row["ordering"]][fp] = (act, reported, p)

    for (instance, ordering), profile in profiles.items():
        acted = [profile[fp][0] for fp in range(1, 10)]
        if None in acted:
            continue
        switch = acted == sorted(acted, reverse=True)
        cells["single_switch_rate"][instance, ordering].append(float(switch))
        if switch:
            revealed, posterior = (sum(acted) + 0.5) / 10, profile[1][2]
            cells["revealed_belief_error"][instance, ordering].append(abs(revealed - posterior))
            reports = [reported for _, reported, _ in profile.values() if reported is not None]
            if reports:
                distance = abs(revealed - sum(reports) / len(reports))
                cells["revealed_belief_distance"][instance, ordering].append(distance)

    result = {}
    for name, found in cells.items():
        instances = defaultdict(list)
        for (instance, _), values in found.items():
            instances[instance].append(sum(values) / len(values))
        means = {instance: sum(values) / len(values) for instance, values in instances.items()}
        result[name] = (sum(means.values()) / len(means), sum(map(len, found.values())), means)
    return result


@pytest.mark.parametrize("losses", [None, (1, 3, 5, 7, 9), (8,)])
@pytest.mark.parametrize("unread", [0.0, 0.02, 0.3])
def test_it_agrees_with_plain_loops(rng, problems, decide, report, unread, losses):
    answers = noisy_answers(rng, problems, decide, report, unread=unread)
    result, expected = score(*answers, losses=losses), by_loops(*answers, losses or range(1, 10))
    names = {name for name in result if not name.endswith(("_ci", "_n"))}
    assert names == {*POOLED, *REVEALED, *(f"{name}_t{loss}" for name in PARTS for loss in range(1, 10))}
    for name in names:
        value, n, _ = expected.get(name, (None, 0, {}))
        assert result[name] == (value if value is None else pytest.approx(value, abs=1e-12))
        assert result[f"{name}_n"] == n and (n or result[f"{name}_ci"] is None)
    assert 0 < result["single_switch_rate_n"] <= 36 or unread == 0.3


def test_the_interval_is_that_of_drawing_whole_instances(rng, problems, decide, report):
    answers = noisy_answers(rng, problems, decide, report)
    result, expected = score(*answers, n_resamples=300, seed=7), by_loops(*answers)
    drawn = np.random.default_rng([7, 0]).integers(0, 12, size=(300, 12))
    for name in ("total_regret", "optimisation_residual_t4", "revealed_belief_distance"):
        means = expected[name][2]
        held = [[means[f"synthetic-{unit:02d}"] for unit in row if f"synthetic-{unit:02d}" in means] for row in drawn]
        interval = np.percentile([mean(values) for values in held if values], [2.5, 97.5])
        assert result[f"{name}_ci"] == pytest.approx(interval, abs=1e-12)


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_the_parts_add_up_whatever_was_answered(data, problems, decide, report):
    rows = problems([0.1, 0.34, 0.8], 2)
    size = {"min_size": len(rows), "max_size": len(rows)}
    beliefs = data.draw(st.lists(st.one_of(st.none(), st.floats(0, 1)), **size))
    words = data.draw(st.lists(st.sampled_from(["LABEL POSITIVE", "LABEL NEGATIVE", "?"]), **size))
    decisions = [f"<final>Decision: {word}</final>" for word in words]
    answers = decisions, ["no" if belief is None else report(belief) for belief in beliefs], rows
    result = score(*answers, n_resamples=5)
    for end in ("", *(f"_t{loss}" for loss in range(1, 10))):
        total, loss, residual = (result[f"{name}{end}"] for name in PARTS)
        assert len({result[f"{name}{end}_n"] for name in PARTS}) == 1
        if total is None:
            assert loss is residual is None
        else:
            assert total == pytest.approx(loss + residual, abs=1e-12)
            assert 0 <= total <= 1 and 0 <= loss <= 1 and -1 <= residual <= 1


# --- What counts how much ---------------------------------------------------------------------------------------------


def test_every_instance_weighs_the_same_and_so_does_every_loss_of_it(agent):
    decisions, beliefs, rows = agent(wrong, right, orderings=5)
    whole = score(decisions, beliefs, rows)
    few = [i for i, row in enumerate(rows) if row["ordering"] == 1 or row["posterior"] > 0.5 or row["cost_fp"] < 4]
    thinned = score(*([column[i] for i in few] for column in (decisions, beliefs, rows)))
    for name in PARTS:  # all orderings answer alike, so that nothing changes with how many there are
        assert thinned[name] == pytest.approx(whole[name], abs=1e-12)
        assert thinned[f"{name}_ci"] == pytest.approx(whole[f"{name}_ci"], abs=1e-12)
    assert thinned["total_regret_n"] == len(few) < whole["total_regret_n"]


def test_the_order_of_the_rows_does_not_matter(rng, problems, decide, report):
    answers = noisy_answers(rng, problems, decide, report)
    shuffled = rng.permutation(len(answers[0]))
    result, again = score(*answers), score(*([column[i] for i in shuffled] for column in answers))
    for name, value in result.items():
        assert again[name] == pytest.approx(value, abs=1e-12)


def test_restricting_the_losses_is_scoring_their_rows_but_for_what_needs_all_nine(rng, problems, decide, report):
    answers = noisy_answers(rng, problems, decide, report)
    whole, restricted = score(*answers), score(*answers, losses=(2, 4, 6))
    kept = [i for i, row in enumerate(answers[2]) if row["cost_fp"] in (2, 4, 6)]
    alone = score(*([column[i] for i in kept] for column in answers))
    for name in whole:
        stem = name.removesuffix("_ci").removesuffix("_n")
        assert restricted[name] == (alone if stem in POOLED else whole)[name], name
    assert alone["single_switch_rate"] is alone["total_regret_t1"] is None


def test_losses_other_than_the_nine_are_pooled_and_have_no_threshold(problems, decide, report):
    rows = [{**row, "cost_fp": 10, "cost_fn": 1} if row["cost_fp"] == 9 else row for row in problems([0.3, 0.6])]
    rows = [{**row, "cost_fn": 8} if row["cost_fp"] == 1 else row for row in rows]
    decisions, beliefs = [decide(row, 0.5) for row in rows], [report(0.5)] * len(rows)
    result = score(decisions, beliefs, rows)
    assert result["total_regret_n"] == 18
    assert result["total_regret_t9"] is result["total_regret_t1"] is result["single_switch_rate"] is None
    assert score(decisions, beliefs, rows, losses=(1, 2, 9))["total_regret_n"] == 2


def test_a_profile_is_compared_with_the_mean_of_the_beliefs_beside_it(problems, decide, report):
    """As where the first turn was drawn anew for each decision; a belief that was not read is left out."""
    rows = problems([0.34])
    beliefs = [report(p) for p in (0.2, 0.4, 0.2, 0.4, 0.2, 0.4, 0.2, 0.4)] + ["?"]
    result = score([decide(row, 0.5) for row in rows], beliefs, rows)
    assert result["revealed_belief_distance"] == pytest.approx(0.55 - 0.3)
    assert result["revealed_belief_error"] == pytest.approx(0.55 - 0.34)
    silent = score([decide(row, 0.5) for row in rows], [""] * 9, rows)
    assert (silent["revealed_belief_distance"], silent["revealed_belief_distance_n"]) == (None, 0)
    assert silent["revealed_belief_error"] == pytest.approx(0.55 - 0.34)


def test_one_instance_has_no_bootstrap_interval_and_nothing_gives_nothing(agent):
    result = score(*agent(wrong, right, posteriors=[0.34]))
    assert result["total_regret"] > 0 and result["total_regret_ci"] is None
    assert result["parse_rate_ci"] == pytest.approx([0.2065, 1], abs=1e-4)
    empty = score([], [], [])
    assert all(empty[name] is None and empty[f"{name}_n"] == 0 for name in (*POOLED, *REVEALED, "belief_loss_t5"))


def test_counts_by_field_and_state(agent):
    decisions, beliefs, rows = agent(right, right)
    decisions[:4] = ["", "Decision: LABEL POSITIVE", "<final>\nDecision: POSITIVE\n</final>", "no"]
    beliefs[:4] = [None, "<final>\nProbability: 34\n</final>", "<final>\nProbability: 0.3", "a third"]
    counts = count_decisions(*parse_all(decisions, beliefs, rows), read(decisions, beliefs, rows))
    assert {name: count for name, count in counts.items() if count} == {
        **{"answers": 162, "answers_lines": 1, "decision_empty": 1, "decision_malformed": 1, "decision_missing": 1},
        **{"beliefs": 162, "beliefs_open_block": 1, "probability_empty": 1, "probability_out_of_range": 1},
        **{"probability_missing": 1, "instances": 9, "profiles": 18},
    }
    assert "decision_out_of_range" not in counts and counts["probability_truncated"] == 0


# --- Rows and losses that are refused ---------------------------------------------------------------------------------


def test_a_repeated_row_is_named(agent):
    decisions, beliefs, rows = agent(right, right)
    rows[20] = rows[2]
    with pytest.raises(
        ValueError, match=r"references\[20\]: instance, ordering and costs .* of references\[2\]; score"
    ):
        score(decisions, beliefs, rows)


def test_two_posteriors_of_one_instance_are_named(agent):
    decisions, beliefs, rows = agent(right, right)
    rows[5] = {**rows[5], "posterior": 0.3}
    with pytest.raises(ValueError, match=r"references\[5\]: posterior is 0.3, but 0.02 in references\[0\] of the same"):
        score(decisions, beliefs, rows)


@pytest.mark.parametrize("thresholds", [[], [0], [10], [0.3], ["3"], "135", 3, [3, None]])
def test_losses_that_are_none_are_refused(thresholds):
    with pytest.raises(ValueError, match="thresholds must be some of the cost_fp values 1 to 9"):
        check_losses(thresholds)


def test_losses_may_be_any_collection_of_numbers():
    assert check_losses(None) is None
    assert check_losses(np.array([1, 3])) == check_losses((1.0, 3.0)) == check_losses(iter([1, 3])) == (1, 3)


# --- Differences of two runs ------------------------------------------------------------------------------------------


def test_differences_to_a_base_run(agent):
    base, other = read(*agent(wrong, wrong)), read(*agent(right, wrong))
    result = paired_differences(base, other, n_resamples=200)
    before, after = summarise_decisions(base), summarise_decisions(other)
    for name in (*POOLED, *REVEALED, "total_regret_t5"):
        assert result[f"{name}_difference"] == pytest.approx(after[name] - before[name], abs=1e-12)
        assert result[f"{name}_difference_n"] == result[f"{name}_difference_n_base"] == before[f"{name}_n"]
    assert result["total_regret_difference"] == pytest.approx(-before["total_regret"])
    assert result["belief_loss_difference"] == 0 and result["belief_loss_difference_ci"] == [0, 0]
    low, high = result["total_regret_difference_ci"]
    assert low < result["total_regret_difference"] < high < 0
    assert not {*result} & {*before}


def test_only_what_both_runs_read_counts(rng, problems, decide, report):
    ours = noisy_answers(rng, problems, decide, report)
    theirs = noisy_answers(rng, problems, decide, report)
    theirs = *theirs[:2], ours[2]
    result = paired_differences(read(*ours), read(*theirs), n_resamples=100)
    masked = [list(column) for column in (*ours[:2], *theirs[:2])]
    for i, texts in enumerate(zip(*masked, strict=True)):
        if any("high" in text or "cannot" in text for text in texts):
            for column in masked:
                column[i] = ""
    before, after = score(*masked[:2], ours[2]), score(*masked[2:], ours[2])
    for name in PARTS:
        assert result[f"{name}_difference"] == pytest.approx(after[name] - before[name], abs=1e-12)
        assert result[f"{name}_difference_n"] == before[f"{name}_n"] < result[f"{name}_difference_n_base"]
    read_by_each = [score(*answers)["total_regret_n"] for answers in (ours, theirs)]
    assert read_by_each == [result["total_regret_difference_n_base"], result["total_regret_difference_n_other"]]
    total, loss, residual = (result[f"{name}_difference"] for name in PARTS)
    assert total == pytest.approx(loss + residual, abs=1e-12)


def test_a_difference_is_known_better_than_its_two_sides(rng, problems, decide, report):
    """Instances differ more than runs do: pairing them takes that out."""
    rows = problems(np.round(rng.uniform(0.02, 0.98, 40), 2).tolist())
    held = {row["instance_id"]: rng.uniform(0, 1) for row in rows}
    beliefs = [report(row["posterior"]) for row in rows]
    base = read([decide(row, held[row["instance_id"]]) for row in rows], beliefs, rows)
    other = read([decide(row, min(held[row["instance_id"]] + 0.02, 1)) for row in rows], beliefs, rows)
    result = paired_differences(base, other)
    sides = [summarise_decisions(run)["total_regret_ci"] for run in (base, other)]
    low, high = result["total_regret_difference_ci"]
    assert high - low < 0.5 * min(side[1] - side[0] for side in sides)
    assert paired_differences(base, base)["total_regret_difference_ci"] == [0, 0]


def test_differences_may_be_of_some_losses(agent):
    base, other = read(*agent(wrong, right)), read(*agent(right, right))
    result = paired_differences(base, other, losses=(1, 2), n_resamples=50)
    assert result["total_regret_difference_n"] == 36
    assert result["total_regret_difference"] == pytest.approx(-summarise_decisions(base, (1, 2))["total_regret"])
    assert result["total_regret_t9_difference_n"] == 18


@pytest.mark.parametrize("posteriors", [POSTERIORS[:-1], [*POSTERIORS[:-1], 0.9], POSTERIORS[::-1]])
def test_differences_need_the_same_rows(agent, posteriors):
    with pytest.raises(ValueError, match="not of the same rows"):
        paired_differences(read(*agent(right, right)), read(*agent(right, right, posteriors=posteriors)))
