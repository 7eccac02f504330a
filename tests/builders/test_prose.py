from decimal import Decimal, InvalidOperation

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders.prose import a_or_an, count, listed, number, rounded


@pytest.mark.parametrize(
    ("cell", "places", "shown"),
    [
        ("20000", None, "20,000"),
        ("1234567.50", None, "1,234,567.50"),
        ("999", None, "999"),
        ("126.1", None, "126.1"),
        ("63.0", None, "63"),
        ("0.02353", None, "0.02353"),
        ("1e3", None, "1,000"),
        (" 7 ", None, "7"),
        ("-1500", None, "-1,500"),
        ("-0.0", None, "0"),
        ("0", None, "0"),
        ("71", 1, "71.0"),
        ("2.675", 2, "2.68"),
        ("0.125", 2, "0.12"),
        ("1307.666667", 0, "1,308"),
        ("-0.04", 1, "0.0"),
    ],
)
def test_a_number_is_shown_as_the_table_has_it(cell: str, places: int | None, shown: str) -> None:
    assert number(cell, places) == shown


@pytest.mark.parametrize("cell", ["", "?", "nan", "NaN", "inf", "-inf", "None", "1,000", "12a", "0x10"])
@pytest.mark.parametrize("places", [None, 1])
def test_what_is_no_number_is_refused(cell: str, places: int | None) -> None:
    with pytest.raises(InvalidOperation):
        number(cell, places)


@given(st.decimals(-(10**9), 10**9, allow_nan=False, places=6))
def test_a_shown_number_reads_back_as_the_cell(value: Decimal) -> None:
    shown = number(str(value))
    assert Decimal(shown.replace(",", "")) == value
    assert all(len(group) == 3 for group in shown.lstrip("-").split(".")[0].split(",")[1:])
    assert not shown.startswith("-0,") and shown != "-0"


@given(st.decimals(-(10**9), 10**9, allow_nan=False, places=6), st.integers(0, 4))
def test_a_rounded_number_is_within_half_a_unit(value: Decimal, places: int) -> None:
    shown = number(str(value), places)
    assert abs(Decimal(shown.replace(",", "")) - value) <= Decimal(5).scaleb(-places - 1)
    assert len(shown.partition(".")[2]) == places


@pytest.mark.parametrize(
    ("cell", "places", "shown"),
    [("572.667", 1, "572.7"), ("23.00", 1, "23"), ("1234.96", 1, "1,235"), ("0.5", 1, "0.5")],
)
def test_rounded_drops_a_bare_zero(cell: str, places: int, shown: str) -> None:
    assert rounded(cell, places) == shown


@pytest.mark.parametrize(
    ("cell", "words", "shown"),
    [
        ("0", ("visit",), "no visits"),
        ("1", ("visit",), "1 visit"),
        ("1.0", ("visit",), "1 visit"),
        ("3", ("visit",), "3 visits"),
        ("1200", ("page",), "1,200 pages"),
        ("2", ("diagnosis", "diagnoses"), "2 diagnoses"),
        ("0", ("diagnosis", "diagnoses"), "no diagnoses"),
        ("1", ("diagnosis", "diagnoses"), "1 diagnosis"),
        ("0.5", ("hour",), "0.5 hours"),
    ],
)
def test_a_count_agrees_with_its_noun(cell: str, words: tuple[str, ...], shown: str) -> None:
    assert count(cell, *words) == shown


@given(st.integers(0, 10**7))
def test_only_one_is_singular(value: int) -> None:
    assert count(str(value), "visit").endswith("visit") == (value == 1)


@pytest.mark.parametrize(
    ("items", "shown"),
    [
        ([], ""),
        (["a"], "a"),
        (["a", "b"], "a and b"),
        (["a", "b", "c"], "a, b, and c"),
        (list("abcd"), "a, b, c, and d"),
    ],
)
def test_items_are_listed_with_a_serial_comma(items: list[str], shown: str) -> None:
    assert listed(items) == shown
    assert listed(items, "or") == shown.replace(" and ", " or ")


@given(st.lists(st.text("abc", min_size=1), min_size=3))
def test_a_list_can_be_taken_apart_again(items: list[str]) -> None:
    *rest, last = listed(items).split(", ")
    assert [*rest, last.removeprefix("and ")] == items


@pytest.mark.parametrize(
    ("phrase", "article"),
    [
        ("18-year-old student", "an"), ("11-year-old", "an"), ("80-year-old man", "an"), ("8 of 10", "an"),
        ("17-year-old student", "a"), ("19-year-old student", "a"), ("110-word article", "a"), ("100", "a"),
        ("810-word article", "an"), ("1,100-word article", "a"), ("1,800-word article", "a"),
        ("11,000-word article", "an"), ("18,500-word article", "an"), ("180-word article", "a"),
        ("8,000,000-word article", "an"), ("11,000,000-word article", "an"), ("8.5-mm gap", "an"), ("1.8-mm gap", "a"),
        ("11.5-mm gap", "an"), ("0-word article", "a"), ("article", "an"), ("technician", "a"), ("Employee", "an"),
    ],
)  # fmt: skip
def test_the_article_is_the_one_read_aloud(phrase: str, article: str) -> None:
    assert a_or_an(phrase) == f"{article} {phrase}"


@given(st.integers(0, 999_999))
def test_the_article_of_a_number_is_that_of_its_first_spoken_word(value: int) -> None:
    leading = f"{value:,}".split(",")[0]
    spoken_with_a_vowel = leading[0] == "8" or leading in ("11", "18")
    assert a_or_an(f"{value:,}-word article").startswith("an ") == spoken_with_a_vowel
