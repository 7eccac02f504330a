"""Every kind of prompt, pinned to the letter in golden_prompts.md, which is meant to be read and diffed.

After a change that is meant: ``python tests/builders/test_prompts.py --write``, then read ``git diff``.
"""

import re
import sys
from pathlib import Path

import pytest

from builders.framings import FRAMINGS
from builders.prompts import complete_prompt, decidability_prompt, elicitation_prompt
from builders.styles import ELICITATION_STYLES, STYLES
from builders.utilities import COST_PAIRS, CostPair

GOLDEN = Path(__file__).with_name("golden_prompts.md")
COSTS = CostPair(1, 10)
CASE = {
    "setup": "You are an academic advisor reviewing a university student’s record to gauge their risk of dropping out.",
    "event": "the student drops out before completing their degree",
    "evidence": (
        "A 27-year-old student entered with a rank of 120/200, does not receive a scholarship, and passed 0/4 "
        "first-semester courses and 0/5 second-semester courses."
    ),
}


def built() -> dict[str, str]:
    """name -> text: whole prompts of one pair, and each framing's payoffs for all five pairs."""
    texts = {f"elicitation.{style}": elicitation_prompt(CASE, style) for style in ELICITATION_STYLES}
    for framing in FRAMINGS:
        for style in STYLES:
            texts[f"complete.{framing.name}.{style}"] = complete_prompt(CASE, framing, COSTS, style)
            for condition in "ABCD" if style == "direct" else "D":
                name = f"decidability.{framing.name}.{condition}.{style}"
                texts[name] = decidability_prompt(CASE, framing, COSTS, condition, style)
        event = CASE["event"]
        texts[f"paragraphs.{framing.name}"] = "\n".join(framing.complete(event, pair) for pair in COST_PAIRS)
        texts[f"scenarios.{framing.name}"] = "\n".join(framing.scenario(event, pair, "D") for pair in COST_PAIRS)
    return texts


def written(texts: dict[str, str]) -> str:
    head = "# Golden prompts\n\nWritten by test_prompts.py; the five lines of a list are the five cost pairs.\n"
    return head + "".join(f"\n## {name}\n\n```text\n{text}\n```\n" for name, text in texts.items())


def golden() -> dict[str, str]:
    return dict(re.findall(r"^## (\S+)\n\n```text\n(.*?)\n```$", GOLDEN.read_text("utf-8"), re.DOTALL | re.MULTILINE))


BUILT = built()


@pytest.mark.parametrize("name", BUILT)
def test_the_prompt_is_the_golden_one(name: str) -> None:
    assert BUILT[name] == golden()[name]


def test_every_golden_prompt_is_built_and_none_twice() -> None:
    assert list(golden()) == list(BUILT)
    assert GOLDEN.read_text("utf-8").count("\n## ") == 2 + 24 + 8 * (4 + 2) + 16


def test_the_golden_file_is_what_write_writes() -> None:
    assert GOLDEN.read_text("utf-8") == written(BUILT)


def test_the_prompts_of_one_case_differ_in_the_problem_and_the_answer_lines_alone() -> None:
    heads = {text.split("\n\n")[1] for text in BUILT.values() if "\n\n" in text}
    assert heads == {f"Case context:\n{CASE['evidence']}"}


def test_withholding_a_cost_changes_that_sentence_alone() -> None:
    for framing in FRAMINGS:
        complete = BUILT[f"decidability.{framing.name}.D.direct"]
        fp, fn = (
            sentence.format(cost=cost)
            for sentence, cost in zip(
                (framing.fp_present, framing.fn_present),
                ("1", "10") if framing.framing_class == "ratio" else ("100", "1,000"),
                strict=True,
            )
        )
        without_fp, without_fn = complete.replace(fp, framing.fp_withheld), complete.replace(fn, framing.fn_withheld)
        assert BUILT[f"decidability.{framing.name}.A.direct"] == without_fp != complete
        assert BUILT[f"decidability.{framing.name}.B.direct"] == without_fn != complete
        assert BUILT[f"decidability.{framing.name}.C.direct"] == without_fp.replace(fn, framing.fn_withheld)


def test_the_in_context_prompt_is_the_cot_prompt_with_the_example_before_its_instruction() -> None:
    for framing in FRAMINGS:
        for stem, first in (("complete.{}", "First, think"), ("decidability.{}.D", "First inspect")):
            name = stem.format(framing.name)
            before, after = BUILT[f"{name}.cot"].split(f"\n\n{first}")
            assert BUILT[f"{name}.in_context"].startswith(f"{before}\n\nGeneral ")
            assert BUILT[f"{name}.in_context"].endswith(f".\n\n{first}{after}")


def test_no_prompt_prints_the_threshold_or_has_stray_space() -> None:
    for text in BUILT.values():
        assert not re.search(r"threshold|p\*|0\.(909|91|833|83|167|17|091|09)\b|\{|\}", text)
        assert not re.search(r"[ \t]\n|\n\n\n|[^\n ]  |\r|--", text)


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        sys.exit("usage: python tests/builders/test_prompts.py --write")
    GOLDEN.write_text(written(BUILT), encoding="utf-8")
