"""Clinical notes of our own (P2): the evidence in a clinician's words, all of it and nothing else.

Every item of the evidence is said once. Registers, order, grouping and wording are drawn for each note; no diagnosis is
named, no finding added. One note::

    History: Presents with a cough and nasal congestion. Denies dyspnoea and respiratory pain.
    Background: Non-smoker. No history of asthma. Seen in winter.
    Examination: Low-grade fever, temperature 38.1 °C.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from builders.posterior.draws import Draws
from builders.posterior.simsum import Values


@dataclass(frozen=True)
class Register:
    """One way of writing: nouns for what is present and absent, frames around lists of them, whole statements.

    ``present`` and ``absent`` have the nouns of the four symptoms that are there or not, ``past`` those of the three
    conditions in the history; a frame's ``{}`` takes a list of nouns. ``statements`` are for (variable, state).
    """

    present: dict[str, tuple[str, ...]]
    absent: dict[str, tuple[str, ...]]
    past: dict[str, tuple[str, ...]]
    frames: dict[str, tuple[str, ...]]
    statements: dict[tuple[str, str], tuple[str, ...]]


FULL = Register(
    present={
        "dysp": ("shortness of breath", "breathlessness", "dyspnoea", "difficulty breathing"),
        "cough": ("a cough", "coughing"),
        "pain": ("pain on breathing", "chest pain with each breath", "respiratory pain", "chest soreness on breathing"),
        "nasal": ("nasal congestion", "a runny nose", "a blocked nose", "nasal discharge"),
    },
    absent={
        "dysp": ("shortness of breath", "breathlessness", "dyspnoea", "difficulty breathing"),
        "cough": ("cough", "coughing"),
        "pain": ("respiratory pain", "pain on breathing", "chest pain on breathing"),
        "nasal": ("nasal symptoms", "nasal complaints"),
    },
    past={
        "asthma": ("asthma",),
        "hay_fever": ("hay fever", "seasonal allergic rhinitis"),
        "COPD": ("COPD", "chronic obstructive pulmonary disease"),
    },
    frames={
        "present": ("Presents with {}.", "The patient reports {}.", "Complains of {}.", "Comes in because of {}."),
        "none": ("Attends for review.", "Attends for a check-up."),
        "absent": ("Denies {}.", "The patient denies {}.", "No {or}.", "On direct questioning, no {or}."),
        "both": ("Presents with {present}, but no {absent}.", "Reports {present}; denies {absent}."),
        "past": ("Known {}.", "History of {}.", "Past medical history of {}."),
        "no past": ("No history of {or}.", "Never diagnosed with {or}."),
    },
    statements={
        ("smoking", "yes"): ("Current smoker.", "Smokes.", "The patient is a smoker."),
        ("smoking", "no"): ("Non-smoker.", "Does not smoke.", "The patient is not a smoker."),
        ("winter", "yes"): ("Seen in winter.", "Consultation in the winter months.", "Time of year: winter."),
        ("winter", "no"): ("Seen outside winter.", "Consultation outside winter.", "Time of year: not winter."),
        ("fever", "none"): ("No fever, temperature {} °C.", "Afebrile at {} °C.", "Temperature {} °C, no fever."),
        ("fever", "low"): ("Low-grade fever, temperature {} °C.", "Temperature {} °C, a low fever."),
        ("fever", "high"): ("High fever, temperature {} °C.", "Temperature {} °C, a high fever."),
    },
)

COMPACT = Register(
    present={
        "dysp": ("SOB", "dyspnoea"),
        "cough": ("cough",),
        "pain": ("resp. pain", "chest pain on breathing"),
        "nasal": ("blocked nose", "runny nose", "nasal congestion"),
    },
    absent={
        "dysp": ("SOB", "dyspnoea"),
        "cough": ("cough",),
        "pain": ("resp. pain", "chest pain on breathing"),
        "nasal": ("nasal sx",),
    },
    past={"asthma": ("asthma",), "hay_fever": ("hay fever",), "COPD": ("COPD",)},
    frames={
        "present": ("Pt c/o {}.", "C/o {}.", "PC: {}."),
        "none": ("Pt seen for review.", "Routine review."),
        "absent": ("Denies {}.", "No {or}.", "Neg. for {}."),
        "both": ("C/o {present}, but no {absent}.", "Pt c/o {present}; denies {absent}."),
        "past": ("PMH: {}.", "Known {}.", "Hx of {}."),
        "no past": ("No hx of {or}.", "No PMH of {or}."),
    },
    statements={
        ("smoking", "yes"): ("Smoker.", "Current smoker."),
        ("smoking", "no"): ("Non-smoker.",),
        ("winter", "yes"): ("Seen in winter.", "Season: winter."),
        ("winter", "no"): ("Seen outside winter.", "Season: not winter."),
        ("fever", "none"): ("Afebrile, T {}.", "T {}, no fever."),
        ("fever", "low"): ("T {}, low-grade fever.", "Low fever, T {}."),
        ("fever", "high"): ("T {}, high fever.", "High fever, T {}."),
    },
)

TEMPERATURES = {"none": (364, 372), "low": (378, 384), "high": (390, 402)}
"""Tenths of a degree Celsius that are printed beside each state of fever, both ends included."""

HEADINGS = (
    ("History: ", "Background: ", "Examination: "),
    ("S: ", "PMH/social: ", "O/E: "),
    ("**History**\n", "**Background**\n", "**Physical examination**\n"),
    ("", "", ""),
)
ORDERS = ((0, 1, 2), (1, 0, 2), (0, 2, 1), (2, 0, 1))
"""Orders of complaint, background and examination."""


def write_note(evidence: Values, draws: Draws) -> str:
    """A note that says every item of the evidence: five symptoms, and what there is of the background."""
    register = draws.choice((FULL, COMPACT))
    parts = (
        _complaint(evidence, register, draws),
        draws.shuffled(_background(evidence, register, draws)),
        [_fever(evidence["fever"], register, draws)],
    )
    headings = draws.choice(HEADINGS)
    sections = [headings[index] + " ".join(parts[index]) for index in draws.choice(ORDERS) if parts[index]]
    separator = " " if not headings[0] else "\n\n" if headings[0].startswith("**") else "\n"
    return separator.join(sections)


def _complaint(evidence: Values, register: Register, draws: Draws) -> list[str]:
    """The sentences on dyspnoea, cough, pain and nose: what is there, and what is not."""
    chosen = {
        state: draws.shuffled([draws.choice(nouns[name]) for name in nouns if evidence[name] == state])
        for state, nouns in (("yes", register.present), ("no", register.absent))
    }
    present, absent = chosen["yes"], chosen["no"]
    if present and absent and draws.below(3) == 0:
        frame = draws.choice(register.frames["both"])
        return [frame.format(present=_list(present), absent=_list(absent, "or" if "no {" in frame else "and"))]
    sentences = [_framed(register, "present" if present else "none", present, draws)]
    return sentences + ([_framed(register, "absent", absent, draws)] if absent else [])


def _background(evidence: Values, register: Register, draws: Draws) -> list[str]:
    """The sentences on the conditions in the history, smoking and season, as far as they are known."""
    sentences = [
        _framed(register, frame, names, draws)
        for frame, state in (("past", "yes"), ("no past", "no"))
        if (names := [draws.choice(nouns) for name, nouns in register.past.items() if evidence.get(name) == state])
    ]
    known = [(name, evidence[name]) for name in ("smoking", "winter") if name in evidence]
    return sentences + [draws.choice(register.statements[each]) for each in known]


def _fever(state: str, register: Register, draws: Draws) -> str:
    low, high = TEMPERATURES[state]
    temperature = (low + draws.below(high - low + 1)) / 10
    return draws.choice(register.statements["fever", state]).format(f"{temperature:.1f}")


def _framed(register: Register, frame: str, nouns: Sequence[str], draws: Draws) -> str:
    return draws.choice(register.frames[frame]).replace("{or}", _list(nouns, "or")).replace("{}", _list(nouns))


def _list(nouns: Sequence[str], word: str = "and") -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    if len(nouns) < 2:
        return "".join(nouns)
    return f"{', '.join(nouns[:-1])} {word} {nouns[-1]}"
