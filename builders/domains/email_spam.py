"""Email spam: an email-security analyst reads a message's word and character statistics (UCI 94, Spambase).

All rows count. The table has no header; the column names are those of ``spambase.names``. Word and character shares are
percentages, as the table has them.
"""

from __future__ import annotations

from builders.domain import Domain, Row, Source
from builders.prose import listed, number
from builders.tables import read_csv

_COUNTED_WORDS = (
    "make address all 3d our over remove internet order mail receive will people report addresses free business email "
    "you credit your font 000 money hp hpl george 650 lab labs telnet 857 data 415 85 technology 1999 parts pm direct "
    "cs meeting original project re edu table conference"
).split()
_COLUMNS = (
    *(f"word_freq_{word}" for word in _COUNTED_WORDS),
    *(f"char_freq_{character}" for character in ";([!$#"),
    "capital_run_length_average",
    "capital_run_length_longest",
    "capital_run_length_total",
    "spam",
)
_WORDS = ("free", "remove", "your", "money", "hp")
_CHARACTERS = {"!": "exclamation marks", "$": "dollar signs"}


def _words(row: Row) -> str:
    shares = {f"“{word}”": number(row[f"word_freq_{word}"]) for word in _WORDS}
    present, absent = _present(shares), _absent(shares)
    if not present:
        return f"None of the words {listed(absent)} occurs in this message."
    (word, share), *others = present
    found = listed([f"{word} makes up {share}% of the words", *(f"{other} {share}%" for other, share in others)])
    if not absent:
        return f"In this message, {found}."
    return f"In this message, {found}; {listed(absent)} {'does' if len(absent) == 1 else 'do'} not occur."


def _characters(row: Row) -> str:
    shares = {name: number(row[f"char_freq_{character}"]) for character, name in _CHARACTERS.items()}
    present, absent = _present(shares), _absent(shares)
    if not present:
        return f"There are no {listed(absent, 'or')}."
    (name, share), *others = present
    found = listed([f"{name} make up {share}% of the characters", *(f"{other} {share}%" for other, share in others)])
    return f"{found.capitalize()}{f', and there are no {absent[0]}' if absent else ''}."


def _present(shares: dict[str, str]) -> list[tuple[str, str]]:
    return [(name, share) for name, share in shares.items() if share != "0"]


def _absent(shares: dict[str, str]) -> list[str]:
    return [name for name, share in shares.items() if share == "0"]


def _capitals(row: Row) -> str:
    if row["capital_run_length_longest"] == "1":
        return "No run of capital letters is longer than a single letter."
    return (
        f"Unbroken runs of capital letters are {number(row['capital_run_length_average'], 1)} letters long on average "
        f"and {number(row['capital_run_length_longest'])} letters at the longest."
    )


def evidence(row: Row) -> str:
    return f"{_words(row)} {_characters(row)} {_capitals(row)}"


DOMAIN = Domain(
    name="email_spam",
    status="seen",
    setup=(
        "You are an email-security analyst judging, from word and character statistics, whether a message was sent as "
        "unsolicited bulk email."
    ),
    event="this email was sent as unsolicited bulk email (spam) rather than by a legitimate correspondent",
    source=Source(
        id="uci:94",
        title="Spambase",
        creators="Hopkins, M., Reeber, E., Forman, G., and Suermondt, J. (1999)",
        licence="CC BY 4.0",
        page="https://archive.ics.uci.edu/dataset/94",
        archive="https://archive.ics.uci.edu/static/public/94/spambase.zip",
        member="spambase.data",
        sha256="b1ef93de71f97714d3d7d4f58fc9f718da7bbc8ac8a150eff2778616a8097b12",
        rows=4601,
        copies={"spambase.data": "b1ef93de71f97714d3d7d4f58fc9f718da7bbc8ac8a150eff2778616a8097b12"},
    ),
    covariates=(
        *(f"word_freq_{word}" for word in _WORDS),
        *(f"char_freq_{character}" for character in _CHARACTERS),
        "capital_run_length_average",
        "capital_run_length_longest",
    ),
    read=lambda files: read_csv(files[0], names=_COLUMNS),
    outcome=lambda row: {"1": 1, "0": 0}.get(row["spam"]),
    evidence=evidence,
)
