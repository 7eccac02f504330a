"""Clinical notes (P2): is the complaint an infection of the airways, given the note and SimSUM's causal model?

Evidence are the five symptoms, always, and what the note mentions of asthma, smoking, COPD, hay fever and the season;
the rest is summed out. Whether an item is mentioned is drawn without regard to its value, so that silence tells
nothing, and the posterior is exact for whoever knows the model. One instance's state::

    {"dysp": "no", "cough": "yes", "pain": "no", "nasal": "yes", "fever": "low", "winter": "yes"}
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterator
from itertools import product

from builders.construction import ConstructionError
from builders.posterior.draws import Draws
from builders.posterior.instance import Instance
from builders.posterior.notes import write_note
from builders.posterior.simsum import BACKGROUND, SYMPTOMS, joint, states_of
from builders.posterior.strata import spread
from builders.posterior.task import Task

TASK = Task(
    name="clinical",
    setup="You are a clinician in primary care who reads a colleague's note on a patient. You decide whether the "
    "patient is escalated for additional evaluation.",
    event="the patient has an infectious respiratory condition (pneumonia or an upper respiratory tract infection)",
    no_event="the patient has no infectious respiratory condition (neither pneumonia nor an upper respiratory tract "
    "infection)",
    act_word="ESCALATE",
    hold_word="DO NOT ESCALATE",
)

MENTIONED = {"asthma": 0.6, "smoking": 0.75, "hay_fever": 0.5, "winter": 0.75, "COPD": 0.5}
"""How likely a note mentions an item of the background, whatever its value."""

DIAGNOSES = re.compile(r"pneumonia|\bcolds?\b|infecti|bronchiti|influenza|\bflu\b|viral|bacterial|\bURTI\b", re.I)

Evidence = dict[str, str]


def instances() -> list[Instance]:
    """Instances drawn from the model, no two with the same evidence, spread over the tenths of the posterior."""
    return [_instance(split, posterior, evidence) for split, (posterior, evidence) in spread(_drawn())]


def _drawn() -> Iterator[tuple[float, str, tuple[float, Evidence]]]:
    """All evidence in the order in which drawing from the model, repeats thrown away, would bring it up.

    Each evidence waits for an exponential time with its probability as rate (the same as drawing records one by one);
    so the first of a tenth are a sample of the model within that tenth.
    """
    waiting = []
    for evidence in every_evidence():
        infected, probability = joint(evidence)
        rate = probability * math.prod(p if name in evidence else 1 - p for name, p in MENTIONED.items())
        name = instance_id(evidence)
        waiting.append((-math.log(Draws(name).unit()) / rate, name, infected / probability, evidence))
    for _, name, posterior, evidence in sorted(waiting, key=lambda each: each[:2]):
        yield posterior, name, (posterior, evidence)


def every_evidence() -> Iterator[Evidence]:
    """Every combination of symptoms, with every part of the background mentioned in every state."""
    for symptoms, background in product(states_of(SYMPTOMS), product(("yes", "no", None), repeat=len(BACKGROUND))):
        mentioned = {name: state for name, state in zip(BACKGROUND, background, strict=True) if state}
        yield dict(zip(SYMPTOMS, symptoms, strict=True)) | mentioned


def instance_id(evidence: Evidence) -> str:
    """The id of an evidence, ``clinical-`` and eight digits of its SHA-256."""
    content = ",".join(f"{name}={evidence[name]}" for name in (*SYMPTOMS, *BACKGROUND) if name in evidence)
    return f"clinical-{hashlib.sha256(content.encode()).hexdigest()[:8]}"


def _instance(split: str, posterior: float, evidence: Evidence) -> Instance:
    name = instance_id(evidence)
    note = write_note(evidence, Draws(name, "note"))
    if named := DIAGNOSES.search(note):
        raise ConstructionError(f"{name}: the note names a diagnosis, {named[0]!r}")
    return Instance(name, split, posterior, (f"Note:\n{note}",), evidence)
