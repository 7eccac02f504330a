"""Hail forecasts (P2): seven upstream variables of the HailFinder network in sentences, all others summed out.

The event is R5Fcst in {SIG, SVR}. The instances ship frozen; the network does not, and ``--tables DIR`` derives them
from it again. One line of the frozen file, its states in the order of ``VARIABLES``, and what the evidence says::

    {"split":"train","posterior":0.17416,"states":["WeakPos","DecCapIncIns","None","I","LessThanAve",...]}

    Low-level moisture advection is weakly positive.
    The composite outlook for the plains is a weakening cap and increasing instability.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from builders.cases import SEED, order
from builders.construction import ConstructionError
from builders.domain import Source
from builders.errors import UserError
from builders.posterior.draws import Draws
from builders.posterior.instance import SIZES, Instance
from builders.posterior.network import Network, ancestors, marginal, read_bif, sample
from builders.posterior.task import Task
from builders.tables import table_files

FROZEN = Path(__file__).parent / "weather.jsonl"

TASK = Task(
    name="weather",
    setup="You are a forecaster for severe summer hail in northeastern Colorado. You decide whether a hail warning is "
    "issued for the area today.",
    event="significant or severe hail occurs in the area today",
    no_event="no significant or severe hail occurs in the area today",
    act_word="ISSUE WARNING",
    hold_word="NO WARNING",
)
TARGET, EVENT = "R5Fcst", ("SIG", "SVR")

_SHA256 = "cf09960af33dd643771c61e23a89c7815448047f335ffa9ba7d57359bc755548"
SOURCE = Source(
    id="bnlearn:hailfinder",
    title="HailFinder",
    creators="Abramson, B., Brown, J., Edwards, W., Murphy, A., and Winkler, R. L. (1996)",
    licence="CC BY-SA 3.0",
    page="https://www.bnlearn.com/bnrepository/",
    archive="https://www.bnlearn.com/bnrepository/hailfinder/hailfinder.bif.gz",
    member="hailfinder.bif",
    sha256=_SHA256,
    rows=56,
    copies={"hailfinder.bif": _SHA256},
)

SENTENCES: dict[str, dict[str, str]] = {
    "LoLevMoistAd": {
        "StrongPos": "Low-level moisture advection is strongly positive.",
        "WeakPos": "Low-level moisture advection is weakly positive.",
        "Neutral": "Low-level moisture advection is neutral.",
        "Negative": "Low-level moisture advection is negative.",
    },
    "CompPlFcst": {
        "IncCapDecIns": "The composite outlook for the plains is a strengthening cap and decreasing instability.",
        "LittleChange": "The composite outlook for the plains is little change in cap and instability.",
        "DecCapIncIns": "The composite outlook for the plains is a weakening cap and increasing instability.",
    },
    "InsInMt": {
        "None": "There is no instability over the mountains.",
        "Weak": "Instability over the mountains is weak.",
        "Strong": "Instability over the mountains is strong.",
    },
    "Scenario": {
        "A": "The day fits synoptic scenario A: typically south-westerly winds aloft and a Denver cyclone.",
        "B": "The day fits synoptic scenario B: typically no major moving feature, and a Denver cyclone.",
        "C": "The day fits synoptic scenario C: typically north-westerly winds aloft and a Longmont anticyclone over "
        "the plains.",
        "D": "The day fits synoptic scenario D: typically westerly winds in the mountains and average humidity.",
        "E": "The day fits synoptic scenario E: typically south-westerly winds aloft and no major moving feature.",
        "F": "The day fits synoptic scenario F: typically very moist air with high dewpoints everywhere.",
        "G": "The day fits synoptic scenario G: typically dry air with steep, close to dry-adiabatic lapse rates.",
        "H": "The day fits synoptic scenario H: typically east to north-east winds over the plains and a stable "
        "low-level lapse rate.",
        "I": "The day fits synoptic scenario I: typically a quasi-stationary temperature contrast, and dewpoints low "
        "in the south and high in the north.",
        "J": "The day fits synoptic scenario J: typically light and variable winds aloft and little change in synoptic "
        "forcing.",
        "K": "The day fits synoptic scenario K: typically a strong front and widespread downslope winds over the "
        "plains.",
    },
    "CapInScen": {
        "LessThanAve": "For this scenario the cap is weaker than average.",
        "Average": "For this scenario the cap is of average strength.",
        "MoreThanAve": "For this scenario the cap is stronger than average.",
    },
    "AMInsWliScen": {
        "LessUnstable": "For this scenario the morning air is less unstable than average.",
        "Average": "For this scenario the morning air is as unstable as on average.",
        "MoreUnstable": "For this scenario the morning air is more unstable than average.",
    },
    "CurPropConv": {
        "None": "There is currently no propensity to convection.",
        "Slight": "The current propensity to convection is slight.",
        "Moderate": "The current propensity to convection is moderate.",
        "Strong": "The current propensity to convection is strong.",
    },
}
"""variable -> state -> what the evidence says of it. What is typical of a scenario are its likeliest consequences."""

VARIABLES = tuple(SENTENCES)

States = dict[str, str]


def instances() -> list[Instance]:
    """The frozen instances."""
    lines = FROZEN.read_text(encoding="utf-8").splitlines()[1:]
    return [_instance(json.loads(line)) for line in lines]


def _instance(line: Mapping[str, Any]) -> Instance:
    states = dict(zip(VARIABLES, line["states"], strict=True))
    text = evidence(states)
    if read_evidence(text) != states:
        raise ConstructionError(f"the sentences of {states} read back as {read_evidence(text)}")
    return Instance(instance_id(states), line["split"], line["posterior"], (text,), states)


def instance_id(states: States) -> str:
    """The id of a state vector, ``weather-`` and eight digits of its SHA-256."""
    content = ",".join(f"{name}={states[name]}" for name in VARIABLES)
    return f"weather-{hashlib.sha256(content.encode()).hexdigest()[:8]}"


def evidence(states: States) -> str:
    """One sentence for each variable, a line each."""
    return "\n".join(("Today's situation:", *(SENTENCES[name][states[name]] for name in VARIABLES)))


def read_evidence(text: str) -> States:
    """The states that the sentences of an evidence stand for."""
    meaning = {text: (name, state) for name, states in SENTENCES.items() for state, text in states.items()}
    return dict(meaning[sentence] for sentence in text.splitlines()[1:])


def derive(tables: Path) -> str:
    """The text of the frozen file, derived from the network in a folder.

    Raises:
        UserError: the network's file is missing or altered.
    """
    (data,) = table_files(SOURCE, tables)
    lines = [_header(), *_lines(read_bif(data.decode("utf-8")))]
    return "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)


def check_frozen(tables: Path) -> None:
    """Derives the instances again and compares them with those that ship.

    Raises:
        UserError: they differ, or the network's file is missing or altered.
    """
    derived, frozen = derive(tables), FROZEN.read_text(encoding="utf-8")
    if derived != frozen:
        pairs = zip(derived.splitlines(), frozen.splitlines(), strict=False)
        first = next((number for number, (new, old) in enumerate(pairs, start=1) if new != old), 0)
        raise UserError(f"{FROZEN.name}: differs from what {tables} gives, first in line {first}")


def _header() -> dict[str, Any]:
    """What the frozen file says of itself."""
    return {
        "source": SOURCE.id,
        "creators": SOURCE.creators,
        "licence": SOURCE.licence,
        "sha256": SOURCE.sha256,
        "changes": "states of seven variables drawn from the network, posterior computed, all other variables left out",
        "seed": SEED,
        "event": {TARGET: EVENT},
        "variables": VARIABLES,
    }


def _lines(network: Network) -> Iterator[dict[str, Any]]:
    drawn = _distinct_states(network, sum(SIZES.values()))
    splits = [split for split, size in SIZES.items() for _ in range(size)]
    by_hash = sorted(drawn, key=lambda states: order("weather split", *states.values()))
    joint = marginal(network, (*VARIABLES, TARGET))
    for split, states in sorted(zip(splits, by_hash, strict=True), key=lambda each: instance_id(each[1])):
        weights = joint[tuple(network[name].states.index(states[name]) for name in VARIABLES)]
        event = sum(int(weights[network[TARGET].states.index(state)]) for state in EVENT)
        yield {"split": split, "posterior": event / int(weights.sum()), "states": list(states.values())}


def _distinct_states(network: Network, number: int) -> list[States]:
    """The first different state vectors of the variables among draws from the joint distribution."""
    relevant, draws = ancestors(network, VARIABLES), Draws("weather")
    found: dict[str, States] = {}
    while len(found) < number:
        drawn = sample(relevant, draws)
        states = {name: drawn[name] for name in VARIABLES}
        found.setdefault(instance_id(states), states)
    return list(found.values())
