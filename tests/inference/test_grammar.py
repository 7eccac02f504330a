"""The grammar of a guided answer against the published parser: whatever it lets through is read in full."""

import random
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import pytest
import xgrammar

from evaluate_metrics.coherence.parsing import Fields, complete_fields, decidability_fields, elicitation_fields, parse
from inference.grammar import REASONING, answer_grammar

Row = dict[str, Any]

CHARACTERS = [chr(code) for code in range(128)]
STOP = len(CHARACTERS)


@lru_cache(maxsize=1)
def _compiler() -> xgrammar.GrammarCompiler:
    vocabulary = [*CHARACTERS, "</s>"]
    info = xgrammar.TokenizerInfo(vocabulary, vocab_size=len(vocabulary), stop_token_ids=[STOP])
    return xgrammar.GrammarCompiler(info)


def matcher(row: Row) -> xgrammar.GrammarMatcher:
    """A matcher of the row's grammar over a vocabulary of single characters."""
    return xgrammar.GrammarMatcher(_compiler().compile_grammar(answer_grammar(row)))


def accepts(row: Row, text: str) -> bool:
    """Whether the text is one whole sentence of the row's grammar."""
    walk = matcher(row)
    return all(walk.accept_token(ord(c)) for c in text) and walk.accept_token(STOP)


def allowed(walk: xgrammar.GrammarMatcher) -> list[int]:
    """The characters, or STOP, that may come next."""
    mask = xgrammar.allocate_token_bitmask(1, STOP + 1)
    walk.fill_next_token_bitmask(mask)
    words = mask[0].tolist()
    return [token for token in range(STOP + 1) if words[token // 32] >> token % 32 & 1]


def sentence(row: Row, rng: random.Random) -> str:
    """A random walk through the grammar."""
    walk, text = matcher(row), ""
    while (token := rng.choice(allowed(walk))) != STOP:
        assert walk.accept_token(token)
        text += CHARACTERS[token]
        assert len(text) < REASONING + 200
    return text


def sentences(walk: xgrammar.GrammarMatcher, text: str = "") -> Iterator[str]:
    """All sentences of the grammar, depth first."""
    for token in allowed(walk):
        if token == STOP:
            yield text
            continue
        walk.accept_token(token)
        yield from sentences(walk, text + CHARACTERS[token])
        walk.rollback(1)


def fields_of(row: Row) -> Fields:
    if "framing" not in row:
        return elicitation_fields()
    words = row["act_word"], row["hold_word"]
    return decidability_fields(*words) if "condition" in row else complete_fields(*words)


def one_of_each(rows: dict[str, list[Row]]) -> list[Row]:
    """A Direct row of every task and framing."""
    direct = [(task, row) for task in rows for row in rows[task] if row["style"] == "direct"]
    return list({(task, row.get("framing")): row for task, row in direct}.values())


def insurance(rows: dict[str, list[Row]], task: str) -> Row:
    return next(row for row in rows[task] if row.get("framing", "insurance") == "insurance")


def test_every_task_and_framing_has_a_grammar_whose_sentences_parse(rows: dict[str, list[Row]]) -> None:
    rng = random.Random(124)
    chosen = one_of_each(rows)
    assert len(chosen) == 1 + 8 + 8
    for row in chosen:
        seen = {sentence(row, rng) for _ in range(60)}
        assert len(seen) > 20
        for text in seen:
            parsed = parse(text, fields_of(row), "stop")
            assert parsed.complete and parsed.form == "block" and not parsed.revised, text
            if "condition" in row:
                choice, decision = parsed["choice"].value, parsed["decision"].value
                assert decision in ((row["act_word"], row["hold_word"]) if choice == "D" else ("N/A", None)), text
        if "condition" in row:
            assert {parse(text, fields_of(row))["choice"].value for text in seen} == set("ABCD")


def test_the_elicitation_grammar_is_the_numbers_from_0_to_1(rows: dict[str, list[Row]]) -> None:
    texts = list(sentences(matcher(rows["elicitation"][0])))
    decimals = {f"0.{n:0{digits}d}" for digits in (1, 2, 3) for n in range(10**digits)}
    numbers = decimals | {"0", "1", "1.0", "1.00", "1.000"}
    assert sorted(texts) == sorted(f"<final>\nProbability: {number}\n</final>" for number in numbers)
    values = [parse(text, elicitation_fields())["probability"].value for text in texts]
    assert None not in values and min(values) == 0 and max(values) == 1


@pytest.mark.parametrize("number", ["85", "1.5", "-0.1", "0.1234", "1.001", ".5", "0.", "5%", "0.5%", " 0.5", "", "2"])
def test_other_numbers_are_refused(rows: dict[str, list[Row]], number: str) -> None:
    assert not accepts(rows["elicitation"][0], f"<final>\nProbability: {number}\n</final>")


@pytest.mark.parametrize(
    ("task", "lines", "legal"),
    [
        ("complete", "Decision: BUY PROTECTION", True),
        ("complete", "Decision: GO UNINSURED", True),
        ("complete", "Decision: BUY", False),
        ("complete", "Decision: buy protection", False),
        ("complete", "Decision: BUY PROTECTION.", False),
        ("complete", "Decision: N/A", False),
        ("complete", "Choice: D\nDecision: BUY PROTECTION", False),
        ("decidability", "Choice: D\nDecision: BUY PROTECTION", True),
        ("decidability", "Choice: A\nDecision: N/A", True),
        ("decidability", "Choice: C\nDecision: N/A", True),
        ("decidability", "Choice: A\nDecision: BUY PROTECTION", False),
        ("decidability", "Choice: D\nDecision: N/A", False),
        ("decidability", "Choice: E\nDecision: N/A", False),
        ("decidability", "Decision: BUY PROTECTION", False),
    ],
)
def test_only_what_the_item_asks_for_is_accepted(
    rows: dict[str, list[Row]], task: str, lines: str, legal: bool
) -> None:
    text = f"<final>\nProbability: 0.35\n{lines}\n</final>"
    assert accepts(insurance(rows, task), text) == legal


@pytest.mark.parametrize("around", [" {}", "{} ", "{}\n", "```\n{}\n```", "The case is weak.\n{}", "{}{}"])
def test_nothing_stands_around_the_block(rows: dict[str, list[Row]], around: str) -> None:
    block = "<final>\nProbability: 0.35\n</final>"
    assert accepts(rows["elicitation"][0], block)
    assert not accepts(rows["elicitation"][0], around.format(block, block))


def test_the_prompt_asks_for_the_words_of_the_grammar(rows: dict[str, list[Row]]) -> None:
    for row in one_of_each(rows):
        words = [row["act_word"], row["hold_word"]] if "framing" in row else []
        for part in ("<final>", "Probability:", "</final>", *words):
            assert part in row["prompt"] and part in answer_grammar(row)


# --- The reasoning styles: one paragraph, then the block --------------------------------------------------------------


def reasoned(rows: dict[str, list[Row]]) -> list[Row]:
    """A row of every task and reasoning style; of every framing under decidability."""
    found = [(task, row) for task in rows for row in rows[task] if row["style"] != "direct"]
    wanted = {(t, r["style"], r.get("framing") if t == "decidability" else None): r for t, r in found}
    return list(wanted.values())


def test_a_reasoned_sentence_is_one_paragraph_and_a_block_that_parses(rows: dict[str, list[Row]]) -> None:
    rng = random.Random(125)
    chosen = reasoned(rows)
    assert {row["style"] for row in chosen} == {"cot", "in_context"} and len(chosen) == 1 + 2 + 2 * 8
    lengths = set()
    for row in chosen:
        for text in (sentence(row, rng) for _ in range(4)):
            paragraph, _, block = text.partition("\n\n")
            assert 1 <= len(paragraph) <= REASONING and "<" not in paragraph and "\n" not in paragraph
            assert block.startswith("<final>\nProbability: ") and block.endswith("\n</final>")
            parsed = parse(text, fields_of(row), "stop")
            assert parsed.complete and parsed.form == "block" and not parsed.revised, text
            alone = parse(block, fields_of(row), "stop")
            assert {name: each.value for name, each in parsed.readings.items()} == {
                name: each.value for name, each in alone.readings.items()
            }
            lengths.add(len(paragraph))
    assert len(lengths) > 20


@pytest.mark.parametrize(
    ("reasoning", "legal"),
    [
        ("x\n\n", True),
        ("Few signs: 3 of 10 > 0.2, so hold.\n\n", True),
        ("x" * REASONING + "\n\n", True),
        ("x" * (REASONING + 1) + "\n\n", False),
        ("\n\n", False),
        ("", False),
        ("x", False),
        ("x\n", False),
        ("x\n\n\n", False),
        ("one\ntwo\n\n", False),
        ("one\n\ntwo\n\n", False),
        ("a < b\n\n", False),
        ("<think>\n\n", False),
        ("<final>\nProbability: 0.9\n</final>\n\n", False),
    ],
)
def test_reasoning_is_one_paragraph_without_a_tag(rows: dict[str, list[Row]], reasoning: str, legal: bool) -> None:
    row = next(row for row in rows["elicitation"] if row["style"] == "cot")
    assert accepts(row, f"{reasoning}<final>\nProbability: 0.35\n</final>") == legal
    assert not accepts(row, f"{reasoning}<final>\nProbability: 1.35\n</final>")


def test_a_direct_answer_may_not_reason(rows: dict[str, list[Row]]) -> None:
    row = next(row for row in rows["elicitation"] if row["style"] == "direct")
    assert not accepts(row, "x\n\n<final>\nProbability: 0.35\n</final>")
