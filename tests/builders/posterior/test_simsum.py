"""SimSUM's model: the transcription, and the posterior against enumeration and a million simulated records."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from builders.posterior.instance import Instance
from builders.posterior.simsum import BACKGROUND, INFECTIONS, MODEL, SYMPTOMS, NoisyOr, Table, posterior

RECORDS = 1_000_000


@pytest.fixture(scope="module")
def published(tables: Path) -> dict[str, Any]:
    path = tables / "simsum-model.json.gz"
    if not path.is_file():
        pytest.skip(f"{path} is not at hand")
    nodes: dict[str, Any] = json.loads(gzip.decompress(path.read_bytes()))["nodes"]
    return nodes


@pytest.mark.parametrize("name", MODEL)
def test_the_literal_is_the_published_model(published: dict[str, Any], name: str) -> None:
    node, ours = published[name], MODEL[name]
    assert set(ours.states) == set(node["states"])
    if isinstance(ours, NoisyOr):
        assert (node["type"], node["leak"], node["activation"]) == ("noisy_or", ours.leak, dict(ours.activation))
        assert set(node["parents"]) == set(ours.activation)
        return
    assert node["parents"] == list(ours.parents)
    if name == "fever":
        assert ours.states == tuple(node["states"])
        assert {",".join(key): list(row) for key, row in ours.rows.items()} == node["p"]
    elif ours.parents:
        assert {",".join(key): row[0] for key, row in ours.rows.items()} == node["p_yes"]
        assert all(sum(row) == pytest.approx(1) for row in ours.rows.values())
    else:
        assert ours.rows[()][0] == node["p_yes"]


def test_what_is_left_out_bears_on_no_infection(published: dict[str, Any]) -> None:
    left_out = published.keys() - MODEL.keys()
    assert left_out == {"policy", "self_empl", "antibiotics", "days_at_home"}
    assert all(not set(published[name]["parents"]) & left_out for name in MODEL)


def chance(node: Mapping[str, Any], values: Mapping[str, str], state: str) -> float:
    """P(state | parents), straight from the published description."""
    if node["type"] == "noisy_or":
        active = [p for parent, p in node["activation"].items() if values[parent] == "yes"]
        yes = 1 - (1 - node["leak"]) * float(np.prod([1 - p for p in active]))
    elif node["type"] == "bernoulli":
        yes = node["p_yes"]
    else:
        key = ",".join(values[parent] for parent in node["parents"])
        if "p" in node:
            return float(node["p"][key][node["states"].index(state)])
        yes = node["p_yes"][key]
    return yes if state == "yes" else 1 - yes


def test_the_posterior_is_that_of_the_published_description_enumerated(
    published: dict[str, Any], instances: dict[str, list[Instance]]
) -> None:
    for instance in instances["clinical"][::40]:
        hidden = [name for name in MODEL if name not in instance.state]
        weights = {True: 0.0, False: 0.0}
        for combination in product(*(published[name]["states"] for name in hidden)):
            values = {**instance.state, **dict(zip(hidden, combination, strict=True))}
            weight = np.prod([chance(published[name], values, values[name]) for name in MODEL])
            weights["yes" in (values["pneu"], values["inf"])] += float(weight)
        assert instance.posterior == pytest.approx(weights[True] / sum(weights.values()), abs=1e-12)


@pytest.fixture(scope="module")
def simulated() -> dict[str, np.ndarray]:
    """variable -> the states of a million records, sampled from the literal, all records of a variable at once."""
    generator = np.random.default_rng(124)
    records: dict[str, np.ndarray] = {}
    for name, variable in MODEL.items():
        uniform = generator.random(RECORDS)
        if isinstance(variable, Table):
            records[name] = _by_table(variable, records, uniform)
        else:
            no = np.full(RECORDS, 1 - variable.leak)
            for parent, activation in variable.activation.items():
                no = np.where(records[parent] == "yes", no * (1 - activation), no)
            records[name] = np.where(uniform < no, "no", "yes")
    return records


def _by_table(variable: Table, records: Mapping[str, np.ndarray], uniform: np.ndarray) -> np.ndarray:
    drawn = np.empty(RECORDS, dtype="<U4")
    for given, row in variable.rows.items():
        here = np.ones(RECORDS, dtype=bool)
        for parent, state in zip(variable.parents, given, strict=True):
            here &= records[parent] == state
        drawn[here] = np.array(variable.states)[np.searchsorted(np.cumsum(row)[:-1], uniform[here], side="right")]
    return drawn


def test_posteriors_are_the_frequencies_of_a_million_records(
    simulated: dict[str, np.ndarray], instances: dict[str, list[Instance]]
) -> None:
    codes = {(name, state): simulated[name] == state for name in MODEL for state in MODEL[name].states}
    infected = np.logical_or(*(codes[name, "yes"] for name in INFECTIONS))
    deviations = []
    for instance in instances["clinical"]:
        here = np.logical_and.reduce([codes[item] for item in instance.state.items()])
        if (count := int(here.sum())) >= 1000:
            error = np.sqrt(instance.posterior * (1 - instance.posterior) / count)
            deviations.append((infected[here].mean() - instance.posterior) / error)
    assert len(deviations) >= 50
    assert max(map(abs, deviations)) < 3
    assert 0.6 < np.std(deviations) < 1.4


def test_the_simulation_has_the_background_of_the_model(simulated: dict[str, np.ndarray]) -> None:
    for name, share in (("asthma", 0.095), ("winter", 0.4), ("inf", 0.23), ("COPD", 0.0075 * 0.81 + 0.073 * 0.19)):
        assert (simulated[name] == "yes").mean() == pytest.approx(share, abs=0.002)


def test_more_winter_and_more_symptoms_of_a_cold_raise_the_posterior() -> None:
    cold = {"dysp": "no", "cough": "yes", "pain": "no", "nasal": "yes", "fever": "none"}
    well = cold | {"cough": "no", "nasal": "no"}
    for evidence in (cold, well):
        by_season = [posterior(evidence | {"winter": state}) for state in ("no", "yes")]
        assert by_season[0] < posterior(evidence) < by_season[1]
    assert posterior(well) < 0.1 < 0.9 < posterior(cold | {"winter": "yes"})
    with pytest.raises(KeyError):
        posterior(dict.fromkeys(SYMPTOMS[1:], "no"))
    assert set(BACKGROUND) | set(INFECTIONS) | set(SYMPTOMS) == set(MODEL)
