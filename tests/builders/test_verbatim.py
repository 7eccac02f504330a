"""Every string that P1 prints stands in P1, modulo the display's line wraps and ``--`` for the em dash."""

import re

import pytest

from builders.domains import DOMAINS
from builders.framings import FRAMINGS, Framing
from builders.prompts import complete_prompt, decidability_prompt, elicitation_prompt
from builders.styles import (
    COT_COMPLETE,
    COT_DECIDABILITY,
    COT_ELICITATION,
    DIRECT,
    DIRECT_DECIDABILITY,
    IN_CONTEXT_COMPLETE,
    IN_CONTEXT_DECIDABILITY,
    INSTRUCTIONS,
)
from builders.utilities import CostPair

EVENT = "{event_E_description}"
TEMPLATE_CASE = {"setup": "{setup}", "evidence": "{covariate_prose}", "event": EVENT}

INSTRUCTION_HEADINGS = {
    "CoT, belief elicitation": COT_ELICITATION,
    "Direct, all prompts": DIRECT,
    "CoT, complete-information decision": COT_COMPLETE,
    "In-context, prefix prepended to the CoT decision instruction": IN_CONTEXT_COMPLETE,
    "CoT, decidability": COT_DECIDABILITY,
    "Direct, decision decidability": DIRECT_DECIDABILITY,
    "In-context, prefix prepended to decision decidability instruction": IN_CONTEXT_DECIDABILITY,
}

FRAMING_HEADINGS = {
    "intervention": "Framing 1, intervention (protective action)",
    "insurance": "Framing 2, insurance (protective action)",
    "betting": "Framing 3, betting (hedge or offset)",
    "trading": "Framing 4, trading (hedge or offset)",
    "contingency": "Framing 5, contingency (sure vs. contingent payoff)",
    "holdout": "Framing 6, holdout (sure vs. contingent payoff)",
    "lossratio": "Framing 7, loss-ratio (abstract ratio)",
    "utilityratio": "Framing 8, utility-ratio (abstract ratio)",
}

PAPERS_PLACEHOLDERS = {
    "intervention": ("cost_intervene", "event_E_description", "averted_loss", "loss_inaction"),
    "insurance": ("event_E_description", "premium", "payout", "payout"),
    "betting": ("event_E_description", "stake", "win_amount"),
    "trading": ("event_E_description", "contract_price", "contract_win"),
    "contingency": ("sure_amount", "reward_amount", "event_E_description"),
    "holdout": ("sure_amount", "reward_amount", "event_E_description", "sure_amount"),
    "lossratio": ("event_E_description", "loss_ratio_clause"),
    "utilityratio": ("event_E_description", "utility_ratio_clause"),
}
"""P1's names in the order of the text; ours name the quantity, so that one name stands for several of P1's."""


def block(paper: list[str], heading: str) -> list[str]:
    """The lines under a display's heading, up to the blank of spaces that closes the display."""
    start = paper.index(heading) + 1
    first, last = [number for number in range(start, len(paper)) if paper[number] and paper[number].isspace()][:2]
    return paper[first + 1 : last]


def assert_same_but_for_wraps(ours: str, display: list[str]) -> None:
    """Each of our lines is one or more lines of the display, joined by single spaces; nothing is left over."""
    lines = list(display)
    while lines and not lines[0]:
        lines.pop(0)
    while lines and not lines[-1]:
        lines.pop()
    for line in ours.replace("—", "--").split("\n"):
        joined = lines.pop(0)
        while joined != line and len(joined) < len(line):
            joined += " " + lines.pop(0).strip()
        assert joined == line
    assert lines == []


def flat(text: str) -> str:
    return " ".join(text.replace("—", "--").split())


def template_paragraph(framing: Framing) -> str:
    """Our payoff paragraph with P1's placeholder names."""
    names = iter(PAPERS_PLACEHOLDERS[framing.name])
    return re.sub(r"\{\w+\}", lambda _: f"{{{next(names)}}}", framing.paragraph)


@pytest.mark.parametrize("heading", INSTRUCTION_HEADINGS)
def test_an_instruction_is_the_papers(paper: list[str], heading: str) -> None:
    assert_same_but_for_wraps(INSTRUCTION_HEADINGS[heading], block(paper, heading))


def test_every_instruction_in_use_was_compared() -> None:
    known = set(INSTRUCTION_HEADINGS.values())
    assert {
        part for styles in INSTRUCTIONS.values() for text in styles.values() for part in text.split("\n\n")
    } == known


def test_the_elicitation_template_is_the_papers(paper: list[str]) -> None:
    prompt = elicitation_prompt(TEMPLATE_CASE, "cot").replace(COT_ELICITATION, "{instruction}")
    assert_same_but_for_wraps(prompt, block(paper, "Belief elicitation template"))


@pytest.mark.parametrize("framing", FRAMINGS, ids=lambda framing: framing.name)
def test_a_complete_template_is_the_papers(paper: list[str], framing: Framing) -> None:
    costs = CostPair(1, 5)
    prompt = complete_prompt(TEMPLATE_CASE, framing, costs, "direct").replace(DIRECT, "{instruction}")
    prompt = prompt.replace(framing.complete(EVENT, costs), template_paragraph(framing))
    assert_same_but_for_wraps(prompt, block(paper, FRAMING_HEADINGS[framing.name]))


def test_the_framings_come_in_the_papers_order(paper: list[str]) -> None:
    assert [framing.name for framing in FRAMINGS] == list(FRAMING_HEADINGS)
    assert sorted(FRAMING_HEADINGS.values(), key=paper.index) == list(FRAMING_HEADINGS.values())


def test_the_decidability_template_is_the_papers(paper: list[str]) -> None:
    framing, costs = FRAMINGS[0], CostPair(1, 5)
    prompt = decidability_prompt(TEMPLATE_CASE, framing, costs, "D", "direct")
    prompt = prompt.replace(framing.scenario(EVENT, costs, "D"), "{scenario}")
    prompt = prompt.replace(DIRECT_DECIDABILITY, "{instruction}")
    prompt = prompt.replace("<INTERVENE or HOLD if", "<{act_word} or {hold_word} if")
    assert_same_but_for_wraps(prompt, block(paper, "Decidability template"))


def test_the_scenario_sentences_of_all_framings_are_the_papers(paper: list[str]) -> None:
    costs = CostPair(1, 5)
    ours = []
    for framing in FRAMINGS:
        opening = framing.opening.format(event=EVENT)
        both = framing.scenario(EVENT, costs, "D").removeprefix(f"{opening} ")
        fp_present, fn_present = re.fullmatch(r"(If the event does not .*?\.) (If the event occurs.*)", both).groups()
        ours += [
            f"[{framing.name}] Decision field: <{framing.act_word} or {framing.hold_word}>",
            f"opening : {opening}",
            f"FP present : {fp_present}",
            f"FP withheld: {framing.fp_withheld}",
            f"FN present : {fn_present}",
            f"FN withheld: {framing.fn_withheld}",
        ]
    assert flat("\n".join(block(paper, "Scenario sentences by framing"))) == " ".join(ours)


def test_setups_and_events_are_those_of_table_1_in_its_order(paper: list[str]) -> None:
    start = next(number for number, line in enumerate(paper) if line.startswith("Domain\tRole sentence"))
    rows = [line.split("\t")[1:] for line in paper[start + 1 : start + 23] if "\t" in line]
    assert rows == [[domain.setup, domain.event] for domain in DOMAINS]


def test_the_uci_ids_are_those_of_appendix_c(paper: list[str]) -> None:
    text = next(line for line in paper if line.startswith("Eighteen domains come from the UCI"))
    ids = re.search(r"dataset ids ([\d, ]+)\)", text)[1].split(", ")
    assert [domain.source.id for domain in DOMAINS if domain.source.id.startswith("uci:")] == [
        f"uci:{id}" for id in ids
    ]
