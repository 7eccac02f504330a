"""Hail forecasts: the sentences, the frozen file, and its derivation from the network where that is at hand."""

from __future__ import annotations

import gzip
import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from builders.errors import UserError
from builders.posterior import weather
from builders.posterior.instance import SIZES, Instance
from builders.posterior.network import Network, ancestors, marginal, read_bif
from builders.posterior.weather import EVENT, SENTENCES, TARGET, VARIABLES

# What the sentence of a scenario says of it, as states that the network makes likely there.
TYPICAL = {
    "A": {"WindAloft": "SWQuad", "SfcWndShfDis": "DenvCyclone"},
    "B": {"MvmtFeatures": "NoMajor", "SfcWndShfDis": "DenvCyclone"},
    "C": {"WindAloft": "NWQuad", "WindFieldPln": "LongAnticyc"},
    "D": {"WindFieldMt": "Westerly", "MeanRH": "Average"},
    "E": {"WindAloft": "SWQuad", "MvmtFeatures": "NoMajor"},
    "F": {"MeanRH": "VeryMoist", "Dewpoints": "HighEvrywher"},
    "G": {"MeanRH": "Dry", "LowLLapse": "CloseToDryAd", "MidLLapse": "CloseToDryAd"},
    "H": {"WindFieldPln": "E_NE", "LowLLapse": "Stable"},
    "I": {"TempDis": "QStationary", "Dewpoints": "LowSHighN"},
    "J": {"WindAloft": "LV", "SynForcng": "LittleChange"},
    "K": {"MvmtFeatures": "StrongFront", "WindFieldPln": "WidespdDnsl"},
}


@pytest.fixture(scope="module")
def hail(instances: dict[str, list[Instance]]) -> list[Instance]:
    return instances["weather"]


@pytest.fixture(scope="module")
def bif(tables: Path) -> str:
    path = tables / "hailfinder.bif.gz"
    if not path.is_file():
        pytest.skip(f"{path} is not at hand")
    return gzip.decompress(path.read_bytes()).decode()


@pytest.fixture(scope="module")
def network(bif: str) -> Network:
    return read_bif(bif)


def test_splits_have_their_sizes_and_no_state_vector_twice(hail: list[Instance]) -> None:
    assert Counter(each.split for each in hail) == SIZES
    assert len({tuple(each.state.items()) for each in hail}) == len({each.instance_id for each in hail}) == 560


def test_a_sentence_says_one_state_and_no_other() -> None:
    sentences = [text for states in SENTENCES.values() for text in states.values()]
    assert len(set(sentences)) == len(sentences)
    assert all(re.fullmatch(r"[A-Z][^.\n]+\.", text) and not re.search(r"\d", text) for text in sentences)


def test_every_evidence_reads_back_to_its_states(hail: list[Instance]) -> None:
    for instance in hail:
        lines = instance.evidence[0].splitlines()
        assert lines[0] == "Today's situation:" and len(lines) == 8
        states = {name: state for name in VARIABLES for state, text in SENTENCES[name].items() if text in lines}
        assert states == instance.state


def test_the_posterior_varies(hail: list[Instance]) -> None:
    posteriors = sorted(each.posterior for each in hail)
    assert posteriors[0] < 0.1 and posteriors[-1] > 0.95
    assert posteriors[len(posteriors) // 20] < 0.3 and len(set(posteriors)) > 400


def test_every_state_has_a_sentence(network: Network) -> None:
    assert {name: set(network[name].states) for name in VARIABLES} == {n: set(SENTENCES[n]) for n in VARIABLES}
    upstream = ancestors(network, [TARGET])
    assert set(VARIABLES) < set(upstream) and set(EVENT) < set(network[TARGET].states)


def test_what_is_said_of_a_scenario_is_likely_by_the_network(network: Network) -> None:
    assert set(TYPICAL) == set(network["Scenario"].states)
    for scenario, typical in TYPICAL.items():
        for name, state in typical.items():
            shares = marginal(network, ("Scenario", name))[network["Scenario"].states.index(scenario)]
            chance = shares[network[name].states.index(state)] / shares.sum()
            assert chance >= 0.5 and chance == max(shares) / shares.sum(), (scenario, name)


def test_the_card_says_how_far_the_posterior_varies(network: Network) -> None:
    # InsSclInScen, with four of ours, leaves nothing for the rest to tell.
    best = ("InsInMt", "CapInScen", "CurPropConv", "InsSclInScen", "Scenario")
    assert spread_of(network, VARIABLES) == (0.011, 0.977, 0.212)
    assert spread_of(network, best)[2] == spread_of(network, (*best, "CompPlFcst"))[2] == 0.216


def spread_of(network: Network, names: tuple[str, ...]) -> tuple[float, float, float]:
    """Least, largest and standard deviation of the posterior under the joint distribution of some variables."""
    joint = marginal(network, (*names, TARGET))
    event = joint[..., [network[TARGET].states.index(state) for state in EVENT]].sum(axis=-1)
    weights, unit = joint.sum(axis=-1), joint.sum() // 10**15
    posteriors = (event[weights > 0] / weights[weights > 0]).astype(float)
    shares = (weights[weights > 0] // unit).astype(float) / 1e15
    mean = (shares * posteriors).sum()
    deviation = np.sqrt((shares * (posteriors - mean) ** 2).sum())
    return round(posteriors.min(), 3), round(posteriors.max(), 3), round(float(deviation), 3)


def test_the_frozen_file_is_derived_from_the_network(tables: Path, bif: str) -> None:
    weather.check_frozen(tables)


def test_another_file_is_refused(tables: Path, bif: str, tmp_path: Path) -> None:
    (tmp_path / "hailfinder.bif").write_text(bif.replace("0.254098", "0.254097", 1))
    with pytest.raises(UserError, match=r"hailfinder\.bif: sha256 is .* differs from the published table"):
        weather.check_frozen(tmp_path)
    with pytest.raises(UserError, match=r"no hailfinder\.bif"):
        weather.check_frozen(tmp_path / "nowhere")


def test_another_frozen_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frozen, altered = weather.FROZEN.read_text(), tmp_path / "weather.jsonl"
    altered.write_text(frozen.replace('"split":"train"', '"split":"test"', 1))
    monkeypatch.setattr(weather, "derive", lambda tables: frozen)
    monkeypatch.setattr(weather, "FROZEN", altered)
    with pytest.raises(UserError, match=r"weather\.jsonl: differs from what .* gives, first in line 2"):
        weather.check_frozen(tmp_path)


def test_pgmpy_gives_the_same_posteriors(hail: list[Instance], bif: str) -> None:
    pytest.importorskip("pgmpy")
    from pgmpy.inference import VariableElimination
    from pgmpy.readwrite import BIFReader

    inference: Any = VariableElimination(BIFReader(string=bif).get_model())
    for instance in hail[:200]:
        result = inference.query([TARGET], evidence=dict(instance.state), show_progress=False)
        chance = sum(result.get_value(**{TARGET: state}) for state in EVENT)
        assert abs(chance - instance.posterior) < 1e-9, instance.instance_id
