"""The prose of an elicitation trace, ready for a CoT target: block removed, probability set to p_E (DESIGN §6.5).

A trace is a model's text, so nothing of it is trusted: one that cannot stand in a training target is not usable, with a
reason. Of the answer "The chance of dropping out is 30%.\\n\\n<final>\\nProbability: 0.3\\n</final>", for p_E = 0.284::

    usable_prose(text, span)                      ->  "The chance of dropping out is 30%."
    set_probability(prose, Decimal("0.3"), p_e)   ->  ("The chance of dropping out is 28.4%.", 1)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal

from builders.calculation import number
from evaluate_metrics.coherence.parsing import REASONING_TAGS

_FINAL = re.compile(r"<[ \t]{0,3}/?[ \t]{0,3}final[ \t]{0,3}>", re.I)
_OPENING = re.compile(r"[*_`]{0,3}<[ \t]{0,3}final[ \t]{0,3}>", re.I)
_REASONING = re.compile("|".join(re.escape(tag) for pair in REASONING_TAGS for tag in pair), re.I)
_TEMPLATE_MARK = re.compile(r"<\|?[a-z_]{1,32}\|>|<\|[a-z_]{1,32}>|</?s>|<(?:start|end)_of_turn>|\[/?INST\]", re.I)
_FENCE = re.compile(r"^[ \t]*(?:```|~~~).*$", re.M)
# What announces the block that is gone: a rule, or a heading such as "**Final answer:**".
_ANNOUNCES = re.compile(r"-{3,}|\*{3,}|[#*_ ]{0,8}(?:final )?answer(?: block)?[ :*_]{0,8}", re.I)


class UnusableTrace(Exception):  # noqa: N818 (a reason, not a fault)
    """A trace cannot be part of a target; the message says why, in a few words."""


def usable_prose(text: str, span: tuple[int, int]) -> str:
    """What a trace says before its answer; ``span`` is where its probability was read.

    Raises:
        UnusableTrace: it says nothing, or what it says would not be read as prose in a target.
    """
    prose = _before_answer(text, span).replace("\r\n", "\n").replace("\r", "\n")
    prose = _without_leftovers(_without_reasoning(prose))
    if not any(character.isalpha() for character in prose):
        raise UnusableTrace("no prose before the answer")
    if _FINAL.search(prose):
        raise UnusableTrace("a <final> tag in the prose")
    if _REASONING.search(prose):
        raise UnusableTrace("a reasoning tag in the prose")
    if _TEMPLATE_MARK.search(prose):
        raise UnusableTrace("a mark of a chat template in the prose")
    if len(_FENCE.findall(prose)) % 2:
        raise UnusableTrace("an unclosed code fence")
    return prose


def _before_answer(text: str, span: tuple[int, int]) -> str:
    """The text before the block that holds the reading, or before its line where there is no block."""
    opening = [mark.start() for mark in _OPENING.finditer(text, 0, span[0])]
    return text[: opening[-1] if opening else text.rfind("\n", 0, span[0]) + 1]


def _without_reasoning(prose: str) -> str:
    """The prose behind a closed leading reasoning block, which is no part of the answer."""
    start = prose.lstrip().casefold()
    for opening, closing in REASONING_TAGS:
        head, mark, tail = prose.partition(closing)
        if mark and (start.startswith(opening) or opening not in head.casefold()):
            return tail
    return prose


def _without_leftovers(prose: str) -> str:
    """The prose without the fence that was opened for the answer and the lines that announce it."""
    prose = prose.strip()
    fences = list(_FENCE.finditer(prose))
    opened = len(fences) % 2 == 1
    if opened and fences[0].start() == 0 and fences[-1].end() < len(prose):
        prose, opened = prose[fences[0].end() :].strip(), False  # it wrapped the whole answer
    end = len(prose)
    while end:
        start = prose.rfind("\n", 0, end) + 1
        line = prose[start:end].strip()
        if opened and _FENCE.fullmatch(line):
            opened = False
        elif not _ANNOUNCES.fullmatch(line):
            break
        end = start
        while end and prose[end - 1].isspace():
            end -= 1
    return prose[:end]


# --- The stated probability -------------------------------------------------------------------------------------------

_SENTENCE = re.compile(r"[^\n]+?(?:[.!?](?=\s)|(?=\n)|\Z)")
_SPEAKS = re.compile(r"probabilit|likelihood|\bchances?\b|\bestimat", re.I)
_NUMERAL = re.compile(r"(?<![\w.,-])(\d{1,3}(?:\.\d+)?|\.\d+)(?![\w]|[.,]\d)(\s?%|\s?percent\b)?", re.A)
_LABELLED = re.compile(
    r"\s*[*_`]{0,3}probability[*_`]{0,3}\s*[:=][*_`\s]*([\d.]+)\s?%?[*_`]*(?:\s*\([\d.]+\s?%\))?[\s.]*", re.I
)
_PART_BEFORE = re.compile(r"[\d%)]\s*(?:[-–—+*/×÷^]|\b(?:and|to|or|in))\s*$|\b(?:between|from|out of)\s*$", re.I)
_PART_AFTER = re.compile(r"\s*(?:[-–—+*/×÷^]|in|out of|of|and|to|or)\s*[~≈(]?\s*\d|\s*\*\s*\(|\s*[-–—+]\s*\(", re.I)
_STATES = re.compile(r"(?:\b(?:is|of|at|be|as|equals?|about|approximately|around|roughly)|[=:≈~])\s*[*_`$]{0,3}$", re.I)


_NEAR = 32
"""So many characters on either side of a numeral tell what it is."""


def set_probability(prose: str, reading: Decimal, belief: Decimal) -> tuple[str, int]:
    """The prose with every statement of the trace's own probability set to the belief, and how many there were.

    A statement is the reading's numeral, as a fraction of one or a percentage, in a sentence that speaks of
    probability, likelihood, chance or estimate; in a line `Probability: x` it is whatever number stands there. Parts of
    a range, of odds or of an arithmetic expression are none.
    """
    pieces, done, count = [], 0, 0
    for start, end, percent in _statements(prose, reading):
        pieces += [prose[done:start], number(belief * 100 if percent else belief)]
        done, count = end, count + 1
    return "".join((*pieces, prose[done:])), count


def _statements(prose: str, reading: Decimal) -> Iterator[tuple[int, int, bool]]:
    """(start, end, is a percentage) of each numeral to replace; the percent sign stays."""
    for sentence in _SENTENCE.finditer(prose):
        if not _SPEAKS.search(sentence[0]):
            continue
        labelled = _LABELLED.fullmatch(sentence[0])
        for numeral in _NUMERAL.finditer(prose, sentence.start(), sentence.end()):
            value, percent = Decimal(numeral[1]), bool(numeral[2])
            same = value == (reading * 100 if percent else reading)
            if labelled or (same and _is_statement(prose, sentence.span(), numeral)):
                yield *numeral.span(1), percent


def _is_statement(prose: str, sentence: tuple[int, int], numeral: re.Match[str]) -> bool:
    before = prose[max(sentence[0], numeral.start() - _NEAR) : numeral.start()]
    if _PART_BEFORE.search(before) or _PART_AFTER.match(prose[numeral.end() : min(sentence[1], numeral.end() + _NEAR)]):
        return False
    whole = "." not in numeral[1] and not numeral[2]
    return not whole or bool(_STATES.search(before))  # a bare 0 or 1 may count anything
