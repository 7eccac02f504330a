import random
import time
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluate_metrics.coherence.parsing import (
    CHOICES,
    NOT_APPLICABLE,
    REASONING_TAGS,
    STATES,
    Parsed,
    State,
    complete_fields,
    decidability_fields,
    elicitation_fields,
    parse,
)

FRAGMENTS = (
    *(
        "<final>",
        "</final>",
        "<final",
        "< FINAL >",
        "**",
        "`",
        "```",
        "$",
        "<",
        ">",
        "Probability:",
        "Decision =",
        "Choice:",
    ),
    *(
        "D)",
        "A or B",
        "N/A",
        "HOLD",
        "BUY PROTECTION",
        "0.3",
        "85",
        "30%",
        "1e999999",
        "nan",
        "-",
        ".",
        "%",
        "\n",
        "\r\n",
    ),
    *(
        "\r",
        " ",
        "\x00",
        "\ud800",
        "\udfff",
        "\u0130",
        "\ufeff",
        "\u2028",
        "\uff13",
        "\uff1a",
        "\u2212",
        "\U0001f642",
        "9" * 400,
    ),
    *(tag for pair in REASONING_TAGS for tag in pair),
)


def test_literal_answers(literal_answers):
    assert len(literal_answers) >= 120
    wrong = []
    for row in literal_answers:
        parsed = parse(row["text"], row["fields"], row["finish_reason"])
        got = {name: value_or_state(parsed, name) for name in parsed.readings}
        if (got, parsed.form, parsed.revised) != (row["expect"], row["form"], row["revised"]):
            wrong.append(f"{row['group']}: {row['text']!r} gave {got}, {parsed.form}, {parsed.revised}: {row}")
        check_invariants(row["text"], row["fields"], parsed)
    assert not wrong, "\n".join(wrong)


def test_literal_answers_cover_every_state(literal_answers):
    seen = {value for row in literal_answers for value in row["expect"].values()}
    assert set(get_args(State)) == set(STATES)
    assert seen >= set(STATES) - {"ok"}


def value_or_state(parsed: Parsed, name: str) -> Any:
    reading = parsed[name]
    return reading.value if reading.state == "ok" else reading.state


def check_invariants(text: str | None, fields: Any, parsed: Parsed) -> None:
    """What holds for any text: values in their range and only when read, spans that point at what was read."""
    assert list(parsed.readings) == [field.name for field in fields]
    for field in fields:
        reading = parsed[field.name]
        assert reading.state in STATES
        assert (reading.value is not None) == (reading.state == "ok")
        if reading.state in ("missing", "empty", "truncated"):
            assert reading.span is None
        if reading.span is not None:
            start, end = reading.span
            assert 0 <= start < end <= len(text)
            again = parse(f"<final>\n{field.label}: {text[start:end]}\n</final>", (replace_condition(field),))
            assert reading.state != "ok" or again[field.name].value == reading.value
        if reading.state == "ok":
            assert reading.span is not None
            allowed = (*field.choices, NOT_APPLICABLE)
            assert 0 <= reading.value <= 1 if field.kind == "number" else reading.value in allowed
            assert str(reading.value)[0] != "-"  # -0 is 0
    owed = {field.name for field in fields if field.only_if is None}
    owed |= {field.name for field in fields if field.only_if and parsed[field.only_if[0]].value == field.only_if[1]}
    assert set(parsed.required) == owed
    assert parsed.complete == all(parsed[name].state == "ok" for name in owed)


def replace_condition(field: Any) -> Any:
    """A field that can be read alone: a conditional one takes its "N/A" among the choices."""
    if field.only_if is None:
        return field
    return type(field)(field.name, field.label, field.kind, (*field.choices, NOT_APPLICABLE))


# --- No text raises ---------------------------------------------------------------------------------------------------


def mutate(rng: random.Random, texts: list[str]) -> str:
    """A literal answer after one to five cuts, insertions, swaps, changes of case or splices with another."""
    text = rng.choice(texts)
    for _ in range(rng.randint(1, 5)):
        start, end = sorted(rng.choices(range(len(text) + 1), k=2))
        piece = text[start:end]
        changed = (
            text[:start] + text[end:],
            text[:start],
            text[:start] + rng.choice(FRAGMENTS) + text[start:],
            text[:start] + rng.choice(FRAGMENTS) + text[end:],
            text[:end] + piece + text[end:],
            text[:start] + piece[::-1] + text[end:],
            text[:start] + piece.swapcase() + text[end:],
            text[:start] + rng.choice(texts)[start:],
            text[:start] + chr(rng.randrange(0x110000)) + text[end:],
        )
        text = rng.choice(changed)
    return text


def parse_mutants(literal_answers: list[dict[str, Any]], count: int, seed: int) -> set[str]:
    """Parse mutants with the fields of some literal answer; returns the states met."""
    rng = random.Random(seed)
    texts = [row["text"] for row in literal_answers if row["text"]]
    states = set()
    for _ in range(count):
        text, fields = mutate(rng, texts), rng.choice(literal_answers)["fields"]
        parsed = parse(text, fields, rng.choice((None, "stop", "length")))
        check_invariants(text, fields, parsed)
        states |= {reading.state for reading in parsed.readings.values()}
    return states


def test_mutants_raise_nothing(literal_answers):
    assert parse_mutants(literal_answers, 5_000, seed=124) == set(STATES)


@pytest.mark.slow
def test_200_000_mutants_raise_nothing(literal_answers):
    assert parse_mutants(literal_answers, 200_000, seed=125) == set(STATES)


@given(st.lists(st.one_of(st.text(), st.characters(), st.sampled_from(FRAGMENTS))).map("".join), st.text())
def test_any_text_raises_nothing(text, finish_reason):
    fields = decidability_fields("BUY PROTECTION", "GO UNINSURED")
    check_invariants(text, fields, parse(text, fields, finish_reason))


@pytest.mark.parametrize("text", [None, 3, 0.3, b"<final>", ["<final>"], {"content": ""}])
def test_what_is_no_text_reads_as_empty(text):
    assert parse(text, elicitation_fields())["probability"].state == "empty"


# --- What must not matter, and what must ------------------------------------------------------------------------------

words = st.text("ABCDEFGHIJ ", min_size=1, max_size=12).filter(lambda word: word.strip())


@given(
    thousandths=st.integers(0, 1000),
    pair=st.tuples(words, words).filter(lambda pair: pair[0].split() != pair[1].split()),
    acting=st.booleans(),
    wrap=st.sampled_from(["{}", "**{}**", "`{}`", '"{}"', "<{}>", "${}$", "{}.", "**{}**."]),
    newline=st.sampled_from(["\n", "\r\n", "\r", "\n\n"]),
    prose=st.text("abc \n,0.3%*", max_size=40),
)
def test_a_well_formed_answer_is_read_back(thousandths, pair, acting, wrap, newline, prose):
    number, action = f"{thousandths / 1000:.3f}", pair[0] if acting else pair[1]
    lines = [prose, "<final>", f"Probability: {wrap.format(number)}", f"Decision: {wrap.format(action)}", "</final>"]
    text = newline.join(lines)
    parsed = parse(text, complete_fields(*pair))
    assert (parsed["probability"].value, parsed["decision"].value) == (thousandths / 1000, action)
    assert parsed.complete and parsed.form == "block" and not parsed.revised
    start, end = parsed["probability"].span
    assert text[start:end] == number


@given(st.integers(0, 10**6).map(lambda n: n / 10**4))
def test_a_percent_is_the_same_float_as_its_decimal(percent):
    text = f"{percent:.4f}"
    decimal = f"{percent / 100:.6f}"
    read = [parse(f"Probability: {value}", elicitation_fields())["probability"] for value in (f"{text}%", decimal)]
    assert read[0].value == read[1].value == float(decimal)


@given(st.sampled_from(REASONING_TAGS), st.lists(st.sampled_from([*FRAGMENTS, "0.9", "\n"])).map("".join))
def test_reasoning_is_never_read(tags, thought):
    opening, closing = tags
    thought = thought.lower().replace(closing, "")
    answer = "<final>\nProbability: 0.3\nDecision: HOLD\n</final>"
    fields = complete_fields("ACT", "HOLD")
    alone, behind = parse(answer, fields), parse(f"{opening}{thought}{closing}\n{answer}", fields)
    assert {name: reading.value for name, reading in behind.readings.items()} == {
        "probability": 0.3,
        "decision": "HOLD",
    }
    assert not behind.revised and alone.form == behind.form
    never_closed = parse(f"{opening}{thought}{answer}", fields)
    assert {reading.state for reading in never_closed.readings.values()} == {"truncated"}


def test_spans_index_the_text_as_written():
    lines = [
        "Caf\u00e9 \U0001f642",
        "<final>",
        "Probability: **\uff13\uff10\uff05**.",
        "Choice: **D)** enough",
        "Decision: `hold`",
    ]
    text = "\r\n".join([*lines, "</final>"])
    parsed = parse(text, decidability_fields("ACT", "HOLD"))
    spans = {name: text[slice(*reading.span)] for name, reading in parsed.readings.items()}
    assert spans == {"probability": "\uff13\uff10\uff05", "choice": "D", "decision": "hold"}
    assert parsed["probability"].value == 0.3


def test_a_span_points_at_what_could_not_be_read():
    text = "<final>\nProbability: 70-80%\nDecision: <ACT or HOLD>\n</final>"
    parsed = parse(text, complete_fields("ACT", "HOLD"))
    assert [text[slice(*reading.span)] for reading in parsed.readings.values()] == ["70-80%", "ACT or HOLD"]


@pytest.mark.parametrize("letter", CHOICES)
def test_what_a_choice_requires(letter):
    parsed = parse(f"Probability: 0.3\nChoice: {letter}", decidability_fields("ACT", "HOLD"))
    assert parsed.required == (("probability", "choice", "decision") if letter == "D" else ("probability", "choice"))
    assert parsed.complete == (letter != "D")


# --- Linear time ------------------------------------------------------------------------------------------------------

HOSTILE = {
    "opening tags": "<final>",
    "empty blocks": "<final></final>",
    "blocks": "<final>Probability: 0.1\n</final>",
    "reasoning": "<think>",
    "blanks": " ",
    "angle brackets": "<  ",
    "emphasis": "*",
    "labels": "Probability: ",
    "labelled lines": "Probability: 0.3\n",
    "digits": "9",
    "choices": "A - ",
    "blank-ended words": "A" + " " * 50,
    "full width": "\uff10.",
    "line breaks": "\r\n",
}
BEFORE = {"": None, "<final>\nProbability: ": None, "<final>\nChoice: D": None, "<final>\nDecision: ": "length"}


def seconds(text: str, finish_reason: str | None) -> float:
    """CPU seconds, so that a busy machine does not count; the best of two."""
    fields, times = decidability_fields("ACT", "HOLD"), []
    for _ in range(2):
        start = time.process_time()
        parse(text, fields, finish_reason)
        times.append(time.process_time() - start)
    return min(times)


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("before", BEFORE)
def test_time_is_linear(name, before):
    short, long = (
        seconds(before + HOSTILE[name] * (size // len(HOSTILE[name])), BEFORE[before]) for size in (20_000, 160_000)
    )
    assert long < 0.01 + 30 * short  # 8 times the text: quadratic would be 64 times


def test_a_megabyte_of_opening_tags_is_read_in_well_under_a_second():
    assert seconds("<final>" * (2**20 // 7), None) < 0.5
