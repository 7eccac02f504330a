"""A reader of clinical notes that knows no template: words for things, and whether their clause denies them."""

from __future__ import annotations

import re

WORDS = {
    "dysp": r"short\w* of breath|breathless|dyspn|difficulty breathing|\bSOB\b",
    "cough": r"\bcough",
    "pain": r"\bpain\b|\bsore",
    "nasal": r"\bnasal\b|\bnose\b",
    "asthma": r"\basthma",
    "smoking": r"\bsmok",
    "hay_fever": r"\bhay fever\b|allergic rhinitis",
    "winter": r"\bwinter\b",
    "COPD": r"\bCOPD\b|chronic obstructive",
}
DENIES = re.compile(r"\b(?:no|not|denies|never|neg|outside|non)\b", re.IGNORECASE)
CLAUSE = re.compile(r"(?<!resp)(?<!neg)\.(?!\d)|;|\n|\bbut\b", re.IGNORECASE)


def read_note(note: str) -> dict[str, str]:
    """variable -> state, for everything that the note says.

    Raises:
        ValueError: it says something twice.
    """
    found: dict[str, str] = {}
    for clause in CLAUSE.split(note):
        if clause is None:
            continue
        states = {name: _denied(clause) for name, words in WORDS.items() if re.search(words, clause, re.IGNORECASE)}
        if (fever := _fever(clause)) is not None:
            states["fever"] = fever
        if twice := states.keys() & found.keys():
            raise ValueError(f"said twice: {twice} in {note}")
        found |= states
    return found


def _denied(clause: str) -> str:
    return "no" if DENIES.search(clause) else "yes"


def _fever(clause: str) -> str | None:
    """The state of fever, if the clause is about it; hay fever is not."""
    about = re.search(r"(?<!hay )\bfever\b|afebrile", clause, re.IGNORECASE)
    if not about:
        return None
    number = re.search(r"\d\d\.\d", clause)
    temperature = float(number[0]) if number else 0.0
    by_number = "none" if temperature < 37.5 else "low" if temperature < 38.6 else "high"
    denied = re.search(r"no fever|afebrile", clause, re.IGNORECASE)
    by_word = "none" if denied else "high" if re.search(r"\bhigh\b", clause, re.IGNORECASE) else "low"
    if by_number != by_word:
        raise ValueError(f"the fever is {by_word} in words and {temperature}: {clause}")
    return by_word
