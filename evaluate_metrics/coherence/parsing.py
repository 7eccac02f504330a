"""Reading a final answer: raw model text -> values, states and spans (P1 Appendix B formats; the project's one parser).

The prompt asks for a `<final>` block with one labelled line for each field. Nothing is guessed: a value is its whole
line, its scale is 0 to 1 whatever its size, and what cannot be read has no value but a state that says why.

>>> answer = "The case is weak.\\n<final>\\n**Probability:** 30%\\nDecision: go uninsured.\\n</final>"
>>> parsed = parse(answer, complete_fields("BUY PROTECTION", "GO UNINSURED"))
>>> parsed["probability"]
Reading(value=0.3, state='ok', span=(43, 46))
>>> parsed["decision"].value, parsed.form, parsed.complete
('GO UNINSURED', 'block', True)
>>> parse("Probability: 70-80%", elicitation_fields())["probability"].state
'malformed'

Every step maps one character to one character, so a span indexes the text as the model wrote it. Every step is linear
in the length of the text, and no string raises.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal, TypeAlias

State: TypeAlias = Literal["ok", "missing", "malformed", "out_of_range", "truncated", "empty"]
Form: TypeAlias = Literal["block", "open_block", "lines"]
Value: TypeAlias = float | str | None

STATES: tuple[State, ...] = ("ok", "missing", "malformed", "out_of_range", "truncated", "empty")
CHOICES = ("A", "B", "C", "D")
NOT_APPLICABLE = "N/A"

# (opening, closing) marks of the reasoning that models write before the answer: Qwen, DeepSeek and others; Gemma 4.
REASONING_TAGS = (
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("<thought>", "</thought>"),
    ("<reasoning>", "</reasoning>"),
    ("<|channel>thought", "<channel|>"),
)


@dataclass(frozen=True, slots=True)
class Field:
    """One labelled line of the answer format.

    `choices` are the words (kind "action") or letters (kind "choice") that count. With `only_if=("choice", "D")` the
    field is required only when an earlier field, "choice", reads "D"; otherwise it may say "N/A".
    """

    name: str
    label: str
    kind: Literal["number", "action", "choice"]
    choices: tuple[str, ...] = ()
    only_if: tuple[str, str] | None = None


Fields: TypeAlias = tuple[Field, ...]


@dataclass(frozen=True, slots=True)
class Reading:
    """What was read for one field: a value (None unless state is "ok"), and the [start, end) of its text, if any.

    The value is a float in [0, 1], the item's action word as the item spells it, "N/A", or a letter A to D. The span
    leaves the wrappers out: in `**30%**.` it covers `30%`.
    """

    value: Value
    state: State
    span: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Parsed:
    """One answer: a `Reading` for each field (`parsed["probability"]`), and how they were found.

    `required` names the fields that this answer owed; `form` is where they stood ("block", "open_block", "lines", or
    None when nothing looked like an answer); `revised` says that an earlier complete block read differently.
    """

    readings: dict[str, Reading]
    required: tuple[str, ...]
    form: Form | None = None
    revised: bool = False

    def __getitem__(self, name: str) -> Reading:
        return self.readings[name]

    @property
    def complete(self) -> bool:
        """Whether every required field was read: the answer counts in the parse rate."""
        return all(self.readings[name].state == "ok" for name in self.required)


_PROBABILITY = Field("probability", "Probability", "number")


def elicitation_fields() -> Fields:
    """The belief elicitation's only field: `Probability:` (P1 B.2)."""
    return (_PROBABILITY,)


@lru_cache(maxsize=4096)
def decision_fields(act_word: str, hold_word: str) -> Fields:
    """`Decision:` alone, one of the item's two action words (P2, decisions elicited apart from beliefs)."""
    return (Field("decision", "Decision", "action", (act_word, hold_word)),)


@lru_cache(maxsize=4096)
def complete_fields(act_word: str, hold_word: str) -> Fields:
    """`Probability:` and `Decision:`, the latter one of the item's two action words (P1 B.3)."""
    return (_PROBABILITY, *decision_fields(act_word, hold_word))


@lru_cache(maxsize=4096)
def decidability_fields(act_word: str, hold_word: str) -> Fields:
    """`Probability:`, `Choice:` A to D, and `Decision:`, which is required under D and "N/A" otherwise (P1 B.4)."""
    choice = Field("choice", "Choice", "choice", CHOICES)
    return (_PROBABILITY, choice, Field("decision", "Decision", "action", (act_word, hold_word), ("choice", "D")))


def parse(text: str | None, fields: Fields, finish_reason: str | None = None) -> Parsed:
    """Read the fields of one answer; raises on no input.

    text: what the model wrote, untouched; anything that is not a string reads as an empty answer.
    fields: what the prompt asked for, from one of the `*_fields` functions.
    finish_reason: "length" when the token limit cut the answer: the line it cut is then no value.
    """
    if not isinstance(text, str) or not text.strip():
        return _result(fields, {}, "empty", None)
    visible, thinking = _hide_reasoning(_normalise(text))
    cut = finish_reason == "length"
    if not visible.strip():
        return _result(fields, {}, "truncated" if thinking or cut else "empty", None)

    blocks, opened = _final_blocks(visible)
    if blocks:
        readings = _read_block(visible, blocks[-1], fields)
        revised = len(blocks) > 1 and _differs(visible, blocks, fields, readings)
        return _result(fields, readings, "missing", "block", revised)

    end = visible.rfind("\n") + 1 if cut and not thinking else len(visible)
    absent: State = "truncated" if cut or thinking else "missing"
    if opened is not None:
        return _result(fields, _read_block(visible, (opened, end), fields), absent, "open_block")
    readings = _read_block(_TAG.sub(_as_line_break, visible), (0, end), fields)
    return _result(fields, readings, absent, "lines" if readings else None)


def _result(
    fields: Fields, found: dict[str, Reading], absent: State, form: Form | None, revised: bool = False
) -> Parsed:
    """Complete the readings: a field without a value is `absent`, a conditional one is held to its condition."""
    readings: dict[str, Reading] = {}
    required: list[str] = []
    for field in fields:
        reading = found.get(field.name)
        if reading is None or reading.state == "missing":
            reading = Reading(None, absent)
        condition = field.only_if
        if condition is None or readings[condition[0]].value == condition[1]:
            required.append(field.name)
            if condition is not None and reading.value == NOT_APPLICABLE:
                reading = replace(reading, value=None, state="malformed")
        readings[field.name] = reading
    return Parsed(readings, tuple(required), form, revised)


# --- The text: one character for one character ----------------------------------------------------------------------

_ONE_FOR_ONE = (
    {0xFEE0 + code: code for code in range(0x21, 0x7F)}  # full-width forms
    | dict.fromkeys((0x85, 0x2028, 0x2029), "\n")
    | dict.fromkeys((0xA0, *range(0x2000, 0x200C), 0x202F, 0x205F, 0x3000), " ")
    | dict.fromkeys((0x2060, 0xFEFF), " ")  # of no width
    | {0x2212: "-"}  # the minus sign
)


def _normalise(text: str) -> str:
    if "\r" in text:
        text = text.replace("\r\n", " \n").replace("\r", "\n")
    return text if text.isascii() else text.translate(_ONE_FOR_ONE)


_CLOSING = dict(REASONING_TAGS)
_REASONING = re.compile("<(?:" + "|".join(re.escape(tag[1:]) for pair in REASONING_TAGS for tag in pair) + ")", re.I)


def _hide_reasoning(text: str) -> tuple[str, bool]:
    """The text with its reasoning blanked out, and whether one was left open (it then hides the rest).

    A block opens at the start of a line or right behind another block: `<think>` in a sentence is a word. A closing tag
    that comes first was opened by the chat template, so everything before it was reasoning.
    """
    hidden: list[tuple[int, int]] = []
    start, closing = -1, ""
    for mark in _REASONING.finditer(text):
        tag = mark[0].lower()
        if closing:
            if tag == closing:
                hidden.append((start, mark.end()))
                closing = ""
        elif tag in _CLOSING:
            if _starts_line(text, mark.start(), hidden[-1][1] if hidden else 0):
                start, closing = mark.start(), _CLOSING[tag]
        elif not hidden:
            hidden.append((0, mark.end()))
    if closing:
        hidden.append((start, len(text)))
    return _blank(text, hidden) if hidden else text, bool(closing)


def _starts_line(text: str, at: int, after: int) -> bool:
    """Whether only blanks stand between `at` and the line's start, or the end of the last block (`after`)."""
    before = text[max(after, at - 16) : at].rstrip(" \t")  # bounded, so that a line of a million tags stays linear
    return before.endswith("\n") or (not before and at - after <= 16)


def _blank(text: str, hidden: list[tuple[int, int]]) -> str:
    """Blank the hidden stretches, each ending its line: an answer right behind one stands at the start of a line."""
    pieces, done = [], 0
    for start, end in hidden:
        pieces += [text[done:start], " " * (end - start - 1), "\n"]
        done = end
    return "".join(pieces) + text[done:]


# --- Blocks and lines -------------------------------------------------------------------------------------------------

_TAG = re.compile(r"<[ \t]{0,3}(/?)[ \t]{0,3}final[ \t]{0,3}>", re.I | re.A)
_EMPHASIS = "*_`"


def _final_blocks(text: str) -> tuple[list[tuple[int, int]], int | None]:
    """[start, end) of what each complete block holds, and where the last block begins when it was left open.

    A closing tag belongs to the nearest opening one before it: `I will use a <final> block:` opens nothing.
    """
    complete: list[tuple[int, int]] = []
    opened: re.Match[str] | None = None
    for tag in _TAG.finditer(text):
        if not tag[1]:
            opened = tag
        elif opened is not None:
            complete.append((opened.end() + _emphasis(text, opened), tag.start() - _emphasis(text, tag)))
            opened = None
    return complete, None if opened is None else opened.end() + _emphasis(text, opened)


def _emphasis(text: str, tag: re.Match[str]) -> int:
    """How many marks of emphasis wrap the tag: 2 in `**<final>**`, 0 in `**0.3**</final>`."""
    marks = 0
    while (
        marks < 3
        and tag.start() > marks
        and tag.end() + marks < len(text)
        and text[tag.end() + marks] == text[tag.start() - marks - 1]
        and text[tag.end() + marks] in _EMPHASIS
    ):
        marks += 1
    return marks


def _as_line_break(tag: re.Match[str]) -> str:
    return "\n" * len(tag[0])


def _differs(text: str, blocks: list[tuple[int, int]], fields: Fields, last: dict[str, Reading]) -> bool:
    """Whether an earlier block holds a value that the last one does not."""
    values = {field.name: last[field.name].value if field.name in last else None for field in fields}
    for block in blocks[:-1]:
        for name, reading in _read_block(text, block, fields).items():
            if reading.state == "ok" and reading.value != values[name]:
                return True
    return False


def _read_block(text: str, block: tuple[int, int], fields: Fields) -> dict[str, Reading]:
    """Read the labelled lines of text[start:end]; a field without one is not in the result."""
    readings: dict[str, Reading] = {}
    for field, start, end in _labelled_lines(text, block, fields):
        reading = _read_value(text, start, end, field)
        before = readings.get(field.name)
        readings[field.name] = reading if before is None else _merge(before, reading)
    return readings


def _merge(first: Reading, second: Reading) -> Reading:
    """One label, two lines: an empty line says nothing; two values that differ are no value."""
    if second.state == "missing" or (first.value, first.state) == (second.value, second.state):
        return first
    return second if first.state == "missing" else Reading(None, "malformed", second.span)


@lru_cache(maxsize=4096)
def _labels(fields: Fields) -> tuple[re.Pattern[str], dict[str, Field]]:
    """The pattern of a labelled line, and the field of each label."""
    names = "|".join(re.escape(field.label) for field in fields)
    marks = "([*_`]{0,3})"
    pattern = re.compile(rf"^[^\S\n]*{marks}({names}){marks}[^\S\n]*[:=]{marks}(.*)$", re.I | re.A | re.M)
    return pattern, {field.label.lower(): field for field in fields}


def _labelled_lines(text: str, block: tuple[int, int], fields: Fields) -> Iterator[tuple[Field, int, int]]:
    """(field, start, end of the value's text) for each line of the block that begins with a label.

    Emphasis comes off in each of its places: `**Probability**: 0.3`, `**Probability:** 0.3`, `**Probability: 0.3**`.
    """
    offset = block[0]
    pattern, by_label = _labels(fields)
    for line in pattern.finditer(text[block[0] : block[1]]):
        opening, label, closing, after = line.group(1, 2, 3, 4)
        open_still = opening and closing != opening
        start = line.end(4) if open_still and after == opening else line.start(4)
        start, end = _trim(text, offset + start, offset + line.end())
        if open_still and after != opening and text.endswith(opening[::-1], start, end):
            start, end = _trim(text, start, end - len(opening))
        yield by_label[label.lower()], start, end


# --- Values -----------------------------------------------------------------------------------------------------------

_WRAPPERS = {pair[0]: pair[1] for pair in ("**", "__", "``", "$$", '""', "''", "<>", "\u201c\u201d", "\u2018\u2019")}
_NUMBER = re.compile(
    r"([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))(?:e([+-]?[0-9]{1,4}))?[^\S\n]{0,3}(%|percent)?", re.I | re.A
)
# A letter, then a delimiter: `D`, `D)`, `(D)`, `**D.** Enough information`, but not `A false positive`, nor `A or B`.
_CHOICE = re.compile(r"[*_`]{0,3}(?:\(([A-D])\)|([A-D])[*_`]{0,3}(?=$|[).:;]|[^\S\n]*[-\u2013\u2014(]))", re.I | re.A)
_ANOTHER_CHOICE = re.compile(r"\b[A-D](?=[).:;]|[^\S\n]*$)", re.I | re.A)


def _trim(text: str, start: int, end: int) -> tuple[int, int]:
    while start < end and text[start].isspace():
        start += 1
    while start < end and text[end - 1].isspace():
        end -= 1
    return start, end


def _unwrap(text: str, start: int, end: int) -> tuple[int, int]:
    """Take balanced wrappers and one final full stop off a value, by index: no slice, so that it stays linear."""
    stopped = False
    while end - start > 1:
        if _WRAPPERS.get(text[start]) == text[end - 1]:
            start, end = _trim(text, start + 1, end - 1)
        elif text[end - 1] == "." and not stopped:
            end, stopped = end - 1, True
        else:
            break
    return start, end


def _read_value(text: str, start: int, end: int, field: Field) -> Reading:
    start, end = _unwrap(text, start, end)
    if start == end:
        return Reading(None, "missing")
    if field.kind == "number":
        return _read_number(text, start, end)
    if field.kind == "choice":
        return _read_choice(text, start, end, field)
    word = _folded(text[start:end])
    value = _action_words(field).get(word)
    return Reading(value, "malformed" if value is None else "ok", (start, end))


def _read_number(text: str, start: int, end: int) -> Reading:
    match = _NUMBER.fullmatch(text, start, end)
    if match is None:
        return Reading(None, "malformed", (start, end))
    digits, exponent, percent = match.groups()
    # The percent sign moves the exponent, so that 33.3% is the same float as 0.333.
    value = float(f"{digits}e{int(exponent or 0) - 2 * bool(percent)}")
    if not 0 <= value <= 1:
        return Reading(None, "out_of_range", (start, end))
    return Reading(abs(value), "ok", (start, end))  # abs: -0 is 0


def _read_choice(text: str, start: int, end: int, field: Field) -> Reading:
    match = _CHOICE.match(text, start, end)
    if match is None or _ANOTHER_CHOICE.search(text, match.end(), end):
        return Reading(None, "malformed", (start, end))
    group = match.lastindex or 0
    letter = match[group].upper()
    if letter not in field.choices:
        return Reading(None, "malformed", (start, end))
    return Reading(letter, "ok", match.span(group))


def _folded(word: str) -> str:
    return " ".join(word.split()).casefold()


@lru_cache(maxsize=4096)
def _action_words(field: Field) -> dict[str, str]:
    words = field.choices if field.only_if is None else (*field.choices, NOT_APPLICABLE)
    return {_folded(word): word for word in words}
