"""Numbers and lists as a careful writer sets them; every domain's evidence is written with these few functions."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import ROUND_HALF_EVEN, Decimal, InvalidOperation


def number(cell: str, places: int | None = None) -> str:
    """The cell as a number with thousands separators: ``20000`` -> ``20,000``; rounded to ``places`` decimals if given.

    Without ``places`` the decimals stay as the table has them, except that a bare ``.0`` is dropped.

    Raises:
        decimal.InvalidOperation: the cell is not a finite number.
    """
    value = Decimal(cell.strip())
    if not value.is_finite():
        raise InvalidOperation(f"{cell!r} is not a finite number")
    if places is not None:
        value = value.quantize(Decimal(1).scaleb(-places), rounding=ROUND_HALF_EVEN)
    elif value == value.to_integral_value():
        value = value.quantize(Decimal(1))
    return f"{value + 0:,f}"


def count(cell: str, noun: str, plural: str | None = None) -> str:
    """``1`` and ``visit`` -> ``1 visit``; ``3`` -> ``3 visits``; ``0`` -> ``no visits``."""
    shown = number(cell)
    several = plural or f"{noun}s"
    if shown == "0":
        return f"no {several}"
    return f"{shown} {noun if shown == '1' else several}"


def listed(items: Sequence[str], conjunction: str = "and") -> str:
    """``a``; ``a and b``; ``a, b, and c``."""
    if len(items) < 3:
        return f" {conjunction} ".join(items)
    return f"{', '.join(items[:-1])}, {conjunction} {items[-1]}"


def a_or_an(phrase: str) -> str:
    """The phrase with its indefinite article; a leading number is read aloud (``an 18-year-old``, ``an 80``)."""
    first = phrase.split(maxsplit=1)[0].split("-")[0].split(".")[0].replace(",", "")
    if first.isdigit():
        vowel = first.startswith("8") or (first.startswith(("11", "18")) and len(first) % 3 == 2)
    else:
        vowel = first[0].lower() in "aeiou"
    return f"{'an' if vowel else 'a'} {phrase}"


def rounded(cell: str, places: int) -> str:
    """Rounded to ``places`` decimals, a bare ``.0`` dropped: ``572.667`` -> ``572.7``; ``23.00`` -> ``23``."""
    return number(number(cell, places).replace(",", ""))
