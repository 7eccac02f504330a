"""Exact inference: against all combinations of states on random networks, and what the reader of BIF files refuses."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import product
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders.posterior.draws import Draws
from builders.posterior.network import Network, Node, ancestors, marginal, read_bif, sample

SPRINKLER = """
network unknown { }
variable Grass { type discrete [ 2 ] { wet, dry }; }
variable Rain { type discrete [ 2 ] { yes, no }; }
variable Sprinkler { type discrete [ 2 ] { on, off }; }
probability ( Grass | Sprinkler, Rain ) {
  (on, yes) 0.99, 0.01;
  (on, no) 0.9, 0.1;
  (off, yes) 0.8, 0.2;
  (off, no) 0.0, 1.0;
}
probability ( Rain ) { table 0.2, 0.8; }
probability ( Sprinkler | Rain ) { (yes) 0.01, 0.99; (no) 0.4, 0.6; }
"""


def _row(size: int) -> st.SearchStrategy[list[int]]:
    """Whole numbers that add up to 12, as those of every row of a table do to one number."""
    return st.lists(st.integers(0, 5), min_size=size - 1, max_size=size - 1).map(lambda some: [*some, 12 - sum(some)])


@st.composite
def networks(draw: st.DrawFn) -> Network:
    """Up to six nodes of two or three states, each with up to three earlier parents."""
    nodes: Network = {}
    for number in range(draw(st.integers(2, 6))):
        parents = tuple(name for name in nodes if draw(st.booleans()))[:3]
        states = tuple("abc"[: draw(st.integers(2, 3))])
        rows = int(np.prod([len(nodes[parent].states) for parent in parents]))
        weights = draw(st.lists(_row(len(states)), min_size=rows, max_size=rows))
        shape = [len(nodes[parent].states) for parent in parents]
        nodes[f"n{number}"] = Node(
            f"n{number}", states, parents, np.array(weights, dtype=object).reshape(*shape, len(states))
        )
    return nodes


def by_enumeration(network: Network, names: list[str]) -> Counter[tuple[str, ...]]:
    """States of the names -> their weight, added up over every combination of all states."""
    weights: Counter[tuple[str, ...]] = Counter()
    for values in product(*(node.states for node in network.values())):
        chosen = dict(zip(network, values, strict=True))
        rows = (node.table[tuple(network[name].states.index(chosen[name]) for name in node.parents)]
                for node in network.values())  # fmt: skip
        own = (node.states.index(chosen[node.name]) for node in network.values())
        weights[tuple(chosen[name] for name in names)] += prod(row[at] for row, at in zip(rows, own, strict=True))
    return weights


@settings(max_examples=60, deadline=None)
@given(networks(), st.data())
def test_elimination_gives_what_enumeration_gives_exactly(network: Network, data: st.DataObject) -> None:
    names = data.draw(st.lists(st.sampled_from(sorted(network)), unique=True, min_size=1))
    found, expected = marginal(network, names), by_enumeration(network, names)
    assert found.shape == tuple(len(network[name].states) for name in names)
    for at in np.ndindex(found.shape):
        states = tuple(network[name].states[index] for name, index in zip(names, at, strict=True))
        assert Fraction(int(found[at]), int(found.sum())) == Fraction(expected[states], expected.total())


def test_the_sprinkler_of_the_textbook() -> None:
    network = read_bif(SPRINKLER)
    assert list(network) == ["Rain", "Sprinkler", "Grass"]
    (wet_rain, wet_dry), _ = marginal(network, ["Grass", "Rain"])
    assert Fraction(wet_rain, wet_rain + wet_dry) == Fraction(891, 2491)
    assert set(ancestors(network, ["Sprinkler"])) == {"Rain", "Sprinkler"}
    with pytest.raises(KeyError):
        marginal(network, ["Snow"])


def test_samples_follow_the_joint_distribution() -> None:
    network, draws = read_bif(SPRINKLER), Draws("samples")
    counts = Counter(tuple(sample(network, draws).items()) for _ in range(4000))
    share = sum(count for states, count in counts.items() if ("Grass", "wet") in states) / 4000
    assert share == pytest.approx(0.44838, abs=0.025)
    assert not [states for states in counts if {("Sprinkler", "off"), ("Rain", "no"), ("Grass", "wet")} <= set(states)]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("0.9, 0.1", "0.9, 0.2", "Grass are incomplete or do not add up"),
        ("(on, no) 0.9, 0.1;", "", "Grass are incomplete"),
        ("probability ( Rain ) { table 0.2, 0.8; }", "", "no probabilities for Rain"),
        ("( Rain ) { table 0.2, 0.8; }", "( Rain | Grass ) { (wet) 1, 0; (dry) 1, 0; }", "its own ancestor"),
    ],
)
def test_a_broken_file_is_refused(old: str, new: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_bif(SPRINKLER.replace(old, new))
