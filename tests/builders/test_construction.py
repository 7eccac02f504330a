"""The construction check accepts every prompt that is built and refuses one that says anything else."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders.benchmark import complete_rows, decidability_rows, elicitation_rows
from builders.construction import ConstructionError, check_prompt, stated_costs, stated_threshold
from builders.framings import FRAMINGS, Framing
from builders.prompts import complete_prompt, decidability_prompt, elicitation_prompt
from builders.utilities import COST_PAIRS, CostPair

Row = dict[str, Any]

CASE = {
    "case_id": "toy-00",
    "setup": "You are a reviewer.",
    "event": "it happens",
    "evidence": "A file of 12 pages was opened 1,300 times.",
}
every_framing = pytest.mark.parametrize("framing", FRAMINGS, ids=lambda framing: framing.name)


def complete_row(framing: Framing, costs: CostPair, **changed: Any) -> Row:
    prompt = complete_prompt(CASE, framing, costs, "direct")
    return _row(framing, costs, prompt, "complete") | changed


def decidability_row(framing: Framing, costs: CostPair, condition: str, **changed: Any) -> Row:
    prompt = decidability_prompt(CASE, framing, costs, condition, "direct")
    return _row(framing, costs, prompt, "decidability") | {"condition": condition} | changed


def _row(framing: Framing, costs: CostPair, prompt: str, task: str) -> Row:
    return {
        "item_id": f"toy-00.{framing.name}.{costs.name}.{task}.direct",
        "prompt": prompt,
        "framing": framing.name,
        "framing_class": framing.framing_class,
        "cost_fp": costs.fp,
        "cost_fn": costs.fn,
        "p_star": costs.p_star,
        "act_word": framing.act_word,
        "hold_word": framing.hold_word,
    }


def rewritten(row: Row, old: str, new: str) -> Row:
    """The row with another decision problem; the rewriting must change something."""
    assert old != new and row["prompt"].count(old) == 1
    return row | {"prompt": row["prompt"].replace(old, new)}


def problem(row: Row) -> str:
    return row["prompt"].split("\n\n")[2]


def refused(row: Row) -> bool:
    """Whether the check refuses the row by the one error it may raise, which must name the item."""
    try:
        check_prompt(row)
    except ConstructionError as error:
        return str(error).startswith(f"{row['item_id']}: ")
    return False


def swapped(text: str, one: str, other: str) -> str:
    return re.sub(f"{one}|{other}", lambda match: other if match[0] == one else one, text)


def numbers_changed(text: str) -> Iterator[str]:
    """The text with one amount changed at a time: enlarged, reduced to nothing, given a decimal."""
    for match in re.finditer(r"\d[\d,]*", text):
        for other in (f"{int(match[0].replace(',', '')) + 7:,}", "0", f"{match[0]}.5"):
            yield text[: match.start()] + other + text[match.end() :]


def test_every_prompt_of_a_sample_is_accepted(few_cases: list[Row]) -> None:
    from builders.conditions import assign_conditions

    rows = [*elicitation_rows(few_cases[:2]), *complete_rows(few_cases[:2])]
    rows += decidability_rows(few_cases[:2], assign_conditions(few_cases))
    assert len(rows) == 2 * (10 + 240 + 240)
    for row in rows:
        check_prompt(row)


@every_framing
@pytest.mark.parametrize("costs", COST_PAIRS, ids=lambda costs: costs.name)
def test_a_changed_amount_is_refused(framing: Framing, costs: CostPair) -> None:
    row = complete_row(framing, costs)
    for text in numbers_changed(problem(row)):
        assert refused(rewritten(row, problem(row), text)), text
    for condition in "ABCD":
        row = decidability_row(framing, costs, condition)
        for sentence in re.findall(r"If the event [^.]*\.", problem(row)):
            for text in numbers_changed(sentence):
                assert refused(rewritten(row, sentence, text)), text


@every_framing
def test_swapped_action_words_are_refused(framing: Framing) -> None:
    words = framing.act_word, framing.hold_word
    for costs in COST_PAIRS:
        row = complete_row(framing, costs)
        line = row["prompt"].splitlines()[-2]
        assert refused(rewritten(row, line, swapped(line, *words)))
        assert refused(row | {"act_word": words[1], "hold_word": words[0]})
        text = swapped(problem(row), *words)
        if text != problem(row) and not (framing.framing_class == "ratio" and costs.fp == costs.fn):
            assert refused(rewritten(row, problem(row), text)), text
        for condition in "ABD":
            row = decidability_row(framing, costs, condition)
            for sentence in re.findall(r"If the event [^.]*\.", problem(row)):
                assert refused(rewritten(row, sentence, swapped(sentence, *words)))


@every_framing
def test_a_dropped_cost_sentence_is_refused(framing: Framing) -> None:
    row = complete_row(framing, CostPair(1, 10))
    with_amount = [sentence for sentence in re.findall(r"[^.]*\.", problem(row)) if re.search(r"\d", sentence)]
    assert with_amount
    for sentence in with_amount:
        assert refused(rewritten(row, sentence, "")), sentence
    for condition in "ABD":
        row = decidability_row(framing, CostPair(1, 10), condition)
        for sentence in re.findall(r" If the event [^.]*\.", problem(row)):
            assert refused(rewritten(row, sentence, "")), sentence


@every_framing
def test_the_states_of_the_world_exchanged_are_refused(framing: Framing) -> None:
    row = decidability_row(framing, CostPair(1, 10), "D")
    text = swapped(problem(row), "If the event does not occur", "If the event occurs")
    assert refused(rewritten(row, problem(row), text))
    if framing.framing_class in ("hedge", "ratio"):
        row = complete_row(framing, CostPair(1, 10))
        text = swapped(problem(row), "the event does not occur", "the event occurs")
        assert refused(rewritten(row, problem(row), text))


@every_framing
def test_a_wrong_threshold_in_the_row_is_refused(framing: Framing) -> None:
    for costs in COST_PAIRS:
        for other in COST_PAIRS:
            wrong = {"p_star": other.p_star}
            assert refused(complete_row(framing, costs, **wrong)) == (other != costs)
            assert refused(decidability_row(framing, costs, "D", **wrong)) == (other != costs)
    assert refused(complete_row(framing, CostPair(1, 10), p_star=0.091))


@every_framing
def test_a_wrong_condition_in_the_row_is_refused(framing: Framing) -> None:
    for condition in "ABCD":
        for claimed in "ABCD":
            row = decidability_row(framing, CostPair(2, 10), condition) | {"condition": claimed}
            assert refused(row) == (claimed != condition)


@every_framing
def test_a_lost_evidence_or_answer_block_is_refused(framing: Framing) -> None:
    for row in (complete_row(framing, CostPair(1, 1)), decidability_row(framing, CostPair(1, 1), "D")):
        assert refused(rewritten(row, f"Case context:\n{CASE['evidence']}\n\n", ""))
        assert refused(rewritten(row, "\n</final>", ""))
        assert refused(rewritten(row, CASE["evidence"], "A file.\n\nOf 12 pages."))
        assert refused(row | {"prompt": ""})
        assert refused(row | {"prompt": row["prompt"].split("\n\n")[-1]})


@every_framing
@pytest.mark.parametrize("style", ["direct", "cot"])
def test_an_elicitation_with_a_payoff_is_refused(framing: Framing, style: str) -> None:
    costs = CostPair(1, 10)
    prompt = elicitation_prompt(CASE, style)
    row = {"item_id": f"toy-00.elicitation.{style}", "prompt": prompt}
    check_prompt(row)
    question = problem(row)
    for text in (framing.complete(CASE["event"], costs), framing.scenario(CASE["event"], costs, "A")):
        for place in (f"{text}\n\n{question}", f"{question}\n\n{text}", f"{question} {text}", f"{text} {question}"):
            assert refused(rewritten(row, question, place)), place
        assert refused(rewritten(row, CASE["evidence"], f"{CASE['evidence']} {text}"))
    line = f"Decision: <{framing.act_word} or {framing.hold_word}>\n</final>"
    assert refused(rewritten(row, "</final>", line))


def test_a_decision_prompt_is_no_elicitation() -> None:
    row = complete_row(FRAMINGS[0], CostPair(1, 1))
    assert refused({"item_id": row["item_id"], "prompt": row["prompt"]})


# Pairs whose amounts need no rounding: the ratio is whole in one direction, and divides 100 when fp is the larger.
exact_pairs = st.one_of(
    st.builds(lambda fp, times: CostPair(fp, fp * times), st.integers(1, 30), st.integers(1, 60)),
    st.builds(
        lambda fn, times: CostPair(fn * times, fn), st.integers(1, 30), st.sampled_from([1, 2, 4, 5, 10, 20, 50])
    ),
)


@given(exact_pairs, st.sampled_from(FRAMINGS))
def test_the_threshold_recovered_from_the_text_is_that_of_the_costs(costs: CostPair, framing: Framing) -> None:
    assert stated_threshold(complete_prompt(CASE, framing, costs, "cot")) == pytest.approx(costs.p_star, abs=1e-12)
    fp, fn = stated_costs(decidability_prompt(CASE, framing, costs, "D", "cot"))
    assert fp / (fp + fn) == pytest.approx(costs.p_star, abs=1e-12)
    for condition in "ABCD":
        check_prompt(decidability_row(framing, costs, condition))


@given(st.integers(1, 40), st.integers(1, 40), st.sampled_from(FRAMINGS))
def test_a_pair_is_accepted_only_if_its_text_implies_its_threshold(fp: int, fn: int, framing: Framing) -> None:
    costs = CostPair(fp, fn)
    recovered = implied_threshold(complete_prompt(CASE, framing, costs, "direct"))
    assert refused(complete_row(framing, costs)) == (abs(recovered - fp / (fp + fn)) > 1e-9)


def implied_threshold(prompt: str) -> float:
    """p* by a second way: the amounts of the problem paragraph in their order, and a word that tells what they are."""
    text = prompt.split("\n\n")[2]
    amounts = [float(amount.replace(",", "")) for amount in re.findall(r"\b\d[\d,]*", text.replace(CASE["event"], ""))]
    if "(net" in text:
        return amounts[0] / (amounts[0] + amounts[1])
    if "binary decision" not in text:
        return amounts[0] / amounts[1]
    odds = amounts[0] if amounts else 1.0
    about_fp = re.search(r"matters?: choosing (ACT|HOLD) when the event does not occur", text)
    return odds / (1 + odds) if about_fp else 1 / (1 + odds)


@every_framing
@pytest.mark.parametrize("costs", COST_PAIRS, ids=lambda costs: costs.name)
def test_a_second_reader_finds_the_same_threshold(framing: Framing, costs: CostPair) -> None:
    prompt = complete_prompt(CASE, framing, costs, "in_context")
    assert implied_threshold(prompt) == pytest.approx(costs.fp / (costs.fp + costs.fn), abs=1e-12)


EXPECTED_UTILITIES = {
    "intervention": lambda p, a: (-a[0], -p * a[1]),
    "insurance": lambda p, a: (-a[0], -p * a[2]),
    "betting": lambda p, a: (p * a[1] - (1 - p) * a[0], 0),
    "trading": lambda p, a: (p * a[1] - (1 - p) * a[0], 0),
    "contingency": lambda p, a: (p * a[1], a[0]),
    "holdout": lambda p, a: (p * a[1], a[0]),
}
"""(act, hold) from a belief and the paragraph's amounts, as a person would work it out."""


@pytest.mark.parametrize("name", EXPECTED_UTILITIES)
def test_by_expected_value_acting_is_better_just_above_the_threshold_and_worse_just_below(name: str) -> None:
    framing = next(framing for framing in FRAMINGS if framing.name == name)
    for costs in COST_PAIRS:
        text = framing.complete("it happens", costs)
        amounts = [float(amount.replace(",", "")) for amount in re.findall(r"\b\d[\d,]*", text)]
        for belief, acts in ((costs.p_star + 1e-6, True), (costs.p_star - 1e-6, False)):
            act, hold = EXPECTED_UTILITIES[name](belief, amounts)
            assert (act > hold) == acts
