"""The prompts: what they say, what the published parser makes of answers to them, and what the check finds."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import pytest

from builders.construction import ConstructionError
from builders.posterior.benchmark import TASKS
from builders.posterior.instance import Instance, by_split
from builders.posterior.losses import LOSSES
from builders.posterior.reading import check_row
from builders.posterior.rows import checked_rows
from builders.schema import POSTERIOR_ROW
from evaluate_metrics.coherence.parsing import Field, elicitation_fields, parse
from evaluate_metrics.coherence.rule import acts

Row = dict[str, Any]

CONFIGS = ("synthetic", "weather", "clinical")


@pytest.fixture(scope="module")
def rows(instances: dict[str, list[Instance]]) -> dict[str, list[Row]]:
    """config -> the rows of its validation split."""
    return {
        config: list(checked_rows(TASKS[config], by_split(instances[config])["validation"])) for config in instances
    }


def decision_fields(row: Row) -> tuple[Field, ...]:
    return (Field("decision", "Decision", "action", (row["act_word"], row["hold_word"])),)


@pytest.mark.parametrize("config", CONFIGS)
def test_an_instance_has_a_belief_and_nine_decisions_of_either_kind(rows: dict[str, list[Row]], config: str) -> None:
    assert Counter(row["format"] for row in rows[config]) == {"belief": 60, "independent": 540, "two_turn": 540}
    losses = Counter((row["format"], row["cost_fp"], row["cost_fn"]) for row in rows[config])
    assert losses == {
        **{(form, fp, 10 - fp): 60 for form in ("independent", "two_turn") for fp in range(1, 10)},
        ("belief", None, None): 60,
    }
    assert [row.keys() == set(POSTERIOR_ROW) for row in rows[config]] == [True] * len(rows[config])


@pytest.mark.parametrize("config", CONFIGS)
def test_ids_say_what_the_row_is_and_lead_to_the_first_turn(rows: dict[str, list[Row]], config: str) -> None:
    by_id = {row["item_id"]: row for row in rows[config]}
    assert len(by_id) == len(rows[config])
    for row in rows[config]:
        form = "{instance_id}.belief.o{ordering}"
        if row["format"] != "belief":
            form = "{instance_id}.{format}.fp{cost_fp}-fn{cost_fn}.o{ordering}"
            assert row["threshold"] == row["cost_fp"] / 10
        assert row["item_id"] == form.format(**row)
        assert (row["first_item_id"] is None) == (row["format"] != "two_turn")
        if row["first_item_id"]:
            first = by_id[row["first_item_id"]]
            same = ("instance_id", "split", "ordering", "posterior", "state")
            assert first["format"] == "belief" and all(first[name] == row[name] for name in same)


@pytest.mark.parametrize("config", CONFIGS)
def test_a_belief_prompt_states_the_score_and_neither_action_nor_cost(rows: dict[str, list[Row]], config: str) -> None:
    for row in rows[config]:
        if row["format"] == "belief":
            assert "quadratic score 1 - (p - y)^2" in row["prompt"] and "true probability" in row["prompt"]
            assert f"What is the probability that {TASKS[config].event}?" in row["prompt"]
            assert not re.search(rf"\bcosts?\b|{TASKS[config].act_word}|Decision:", row["prompt"])


@pytest.mark.parametrize("config", CONFIGS)
def test_a_decision_prompt_prints_its_costs_and_no_other_number(rows: dict[str, list[Row]], config: str) -> None:
    for row in rows[config]:
        if row["format"] == "belief":
            continue
        problem = row["prompt"][row["prompt"].index("You must choose") :]
        assert re.findall(r"\d+", problem) == [str(row["cost_fp"]), str(row["cost_fn"])]
        assert not re.search(r"threshold|odds|percent|%|probab", problem, re.IGNORECASE)
        assert "lower expected cost" in problem


@pytest.mark.parametrize("config", CONFIGS)
def test_the_parser_reads_either_action_and_takes_neither_for_the_other(
    rows: dict[str, list[Row]], config: str
) -> None:
    row = next(row for row in rows[config] if row["format"] == "independent")
    act, hold = row["act_word"], row["hold_word"]
    for word in (act, hold):
        for text in (word, word.lower(), f"**{word}**", f"<{word}>", f"{word}."):
            parsed = parse(f"Reasons.\n<final>\nDecision: {text}\n</final>", decision_fields(row))
            assert parsed["decision"].value == word and parsed.complete
    for text in (f"{act} or {hold}", act.split()[-1] + "S", f"{act} {hold}", hold.split()[0] + " " + "MAYBE", "N/A"):
        assert parse(f"<final>\nDecision: {text}\n</final>", decision_fields(row))["decision"].state == "malformed"


@pytest.mark.parametrize("config", CONFIGS)
def test_the_announced_block_is_one_that_the_parser_reads(rows: dict[str, list[Row]], config: str) -> None:
    for row in islice(rows[config], 19):
        block = row["prompt"][row["prompt"].index("<final>") :]
        if row["format"] == "belief":
            answer = block.replace("<a single number between 0 and 1>", "0.35")
            assert parse(answer, elicitation_fields())["probability"].value == 0.35
        else:
            answer = block.replace(f"<{row['act_word']} or {row['hold_word']}>", row["hold_word"])
            assert parse(answer, decision_fields(row))["decision"].value == row["hold_word"]
        assert row["prompt"].endswith("</final>") and row["prompt"].count("<final>") == 2


@pytest.mark.parametrize("config", CONFIGS)
def test_a_second_turn_has_no_evidence_and_the_others_have_it(
    rows: dict[str, list[Row]], instances: dict[str, list[Instance]], config: str
) -> None:
    evidence = {each.instance_id: each.evidence for each in instances[config]}
    for row in rows[config]:
        text = evidence[row["instance_id"]][row["ordering"] - 1]
        assert (text in row["prompt"]) == (row["format"] != "two_turn")
        assert json.loads(row["state"])


def test_ties_act_and_both_actions_are_optimal_somewhere(instances: dict[str, list[Instance]]) -> None:
    assert acts(0.3, 3, 7) and not acts(0.28, 3, 7)
    assert [(loss.fp, loss.fn) for loss in LOSSES] == [(fp, 10 - fp) for fp in range(1, 10)]
    for config, members in instances.items():
        for loss in LOSSES:
            optimal = {acts(each.posterior, loss.fp, loss.fn) for each in members if each.split == "test"}
            assert optimal == {True, False}, (config, loss)


def _mutations() -> Iterator[tuple[str, Callable[[Row], Row], str]]:
    def text(form: str, old: str, new: str, message: str) -> tuple[str, Callable[[Row], Row], str]:
        return form, lambda row: row | {"prompt": row["prompt"].replace(old, new)}, message

    yield text("independent", "cost of 3", "cost of 4", "the text states the costs")
    yield text("independent", "ISSUE WARNING and no sign", "NO WARNING and no sign", "the text states the costs")
    yield text("independent", "Otherwise you pay nothing.", "Act above 0.3.", "prints the numbers 3, 7, 0.3")
    yield text("two_turn", "Otherwise you pay nothing.", "Mind the threshold.", "a threshold of")
    yield text("two_turn", "You have just given", "You may have given", "must name the probability")
    yield text("independent", "<ISSUE WARNING or", "<WARN or", "the answer block offers")
    yield text("independent", "Instability", "Stability", "the evidence must be in the first turn")
    yield text("belief", "1 - (p - y)^2", "p", "must ask for the event's probability")
    yield text(
        "belief", "Question:", "If you choose NO WARNING and it hails, you pay a cost of 3.\n\nQuestion:", "must ask"
    )
    yield text("belief", "true probability.", "true probability. Then ISSUE WARNING.", "no action and no cost")
    yield "two_turn", lambda row: row | {"format": "independent"}, "the evidence must be in the first turn"
    yield "independent", lambda row: row | {"format": "two_turn"}, "the evidence must be in the first turn"
    yield "belief", lambda row: row | {"posterior": 1.0}, "a posterior of 1.0"
    yield "independent", lambda row: row | {"threshold": 0.7}, "a threshold of 0.7"
    yield "independent", lambda row: row | {"cost_fp": 7, "cost_fn": 3}, "the text states the costs"


@pytest.mark.parametrize(("form", "change", "message"), _mutations())
def test_the_check_finds_what_a_prompt_says_wrong(
    instances: dict[str, list[Instance]], form: str, change: Callable[[Row], Row], message: str
) -> None:
    instance = next(each for each in instances["weather"] if each.state["InsInMt"] == "Strong")
    row = next(
        row for row in checked_rows(TASKS["weather"], [instance])
        if row["format"] == form and row["cost_fp"] in (None, 3)
    )  # fmt: skip
    evidence = instance.evidence[0]
    check_row(TASKS["weather"], evidence, row)
    with pytest.raises(ConstructionError, match=rf"^{re.escape(row['item_id'])}: .*{re.escape(message)}"):
        check_row(TASKS["weather"], evidence, change(row))
