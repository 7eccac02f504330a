"""Discrete Bayesian networks, exactly: a reader of BIF files, ancestral sampling, and variable elimination.

Probabilities in a file are decimals, so they are kept as whole numbers, and a posterior is a ratio of two of them: the
same fraction on every machine, whatever the order of elimination. ::

    network = read_bif("network unknown { } variable Rain { type discrete [ 2 ] { yes, no }; } ...")
    marginal(network, ["Grass", "Rain"])  ->  [[8019, 14400], [1981, 25600]], so P(rain | wet) = 8019 / 22419
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import reduce
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from builders.posterior.draws import Draws

_VARIABLE = re.compile(r"variable\s+(\S+)\s*\{\s*type\s+discrete\s*\[\s*\d+\s*\]\s*\{([^}]*)\}\s*;\s*\}")
_TABLE = re.compile(r"probability\s*\(\s*([^\s|)]+)\s*(?:\|([^)]*))?\)\s*\{(.*?)\}", re.DOTALL)
_ROW = re.compile(r"(?:table|\(([^)]*)\))\s*([^;]+);")


@dataclass(frozen=True)
class Node:
    """A variable: its states, its parents, and P(state | parents) as whole numbers that stand in the right ratio.

    ``table`` has one axis for each parent, in their order, and one for the variable.
    """

    name: str
    states: tuple[str, ...]
    parents: tuple[str, ...]
    table: NDArray[np.object_]


Network = dict[str, Node]
"""name -> node; a node comes after its parents."""


def read_bif(text: str) -> Network:
    """The network of a BIF file.

    Raises:
        ValueError: a probability is missing, those of a row do not add up to 1, or a node is its own ancestor.
    """
    states = {match[1]: tuple(match[2].replace(",", " ").split()) for match in _VARIABLE.finditer(text)}
    nodes = {match[1]: _node(match[1], match[2] or "", match[3], states) for match in _TABLE.finditer(text)}
    if states.keys() != nodes.keys():
        raise ValueError(f"no probabilities for {min(states.keys() ^ nodes.keys())}")
    return _in_order(nodes)


def _node(name: str, given: str, body: str, states: Mapping[str, tuple[str, ...]]) -> Node:
    parents = tuple(given.replace(",", " ").split())
    shape = [len(states[each]) for each in (*parents, name)]
    decimals = np.full(shape, None, dtype=object)
    for row in _ROW.finditer(body):
        key = (row[1] or "").replace(",", " ").split()
        at = tuple(states[parent].index(value) for parent, value in zip(parents, key, strict=True))
        decimals[at] = [Decimal(number) for number in row[2].replace(",", " ").split()]
    if any(number is None for number in decimals.flat) or np.any(decimals.sum(axis=-1) != 1):
        raise ValueError(f"the probabilities of {name} are incomplete or do not add up to 1")
    return Node(name, states[name], parents, _whole(decimals))


def _whole(decimals: NDArray[np.object_]) -> NDArray[np.object_]:
    """The decimals, all multiplied by the same number, as the smallest whole numbers."""
    numbers: list[Decimal] = list(decimals.flat)  # type: ignore[arg-type]
    digits = max(0, *(-int(number.as_tuple().exponent) for number in numbers))
    whole = np.array([int(number.scaleb(digits)) for number in numbers], dtype=object).reshape(decimals.shape)
    reduced: NDArray[np.object_] = whole // np.gcd.reduce(whole, axis=None)
    return reduced


def _in_order(nodes: Mapping[str, Node]) -> Network:
    ordered: dict[str, Node] = {}
    while len(ordered) < len(nodes):
        ready = [n for n in nodes.values() if n.name not in ordered and all(each in ordered for each in n.parents)]
        if not ready:
            raise ValueError("a node is its own ancestor")
        ordered |= {node.name: node for node in ready}
    return ordered


def ancestors(network: Network, names: Iterable[str]) -> Network:
    """The part of a network that the given nodes depend on, themselves included.

    Raises:
        KeyError: there is no such node.
    """
    needed: set[str] = set()
    wanted = {network[name].name for name in names}
    for name in reversed(network):
        if name in wanted | needed:
            needed |= {name, *network[name].parents}
    return {name: node for name, node in network.items() if name in needed}


def sample(network: Network, draws: Draws) -> dict[str, str]:
    """One state of every node, drawn from the joint distribution, parents first."""
    states: dict[str, str] = {}
    for node in network.values():
        given = tuple(network[parent].states.index(states[parent]) for parent in node.parents)
        states[node.name] = node.states[draws.weighted(list(node.table[given]))]
    return states


@dataclass(frozen=True)
class _Factor:
    """A function of some variables, one axis of ``values`` for each."""

    scope: tuple[str, ...]
    values: NDArray[np.object_]


def marginal(network: Network, names: Sequence[str]) -> NDArray[np.object_]:
    """The joint distribution of some nodes, the others summed out: whole numbers in the right ratio, an axis for each.

    Raises:
        KeyError: there is no such node.
    """
    relevant = ancestors(network, names)
    factors = [_Factor((*node.parents, node.name), node.table) for node in relevant.values()]
    hidden = relevant.keys() - {*names}
    while hidden:
        name = min(hidden, key=lambda each: (_cost(factors, each), each))
        factors = _eliminated(factors, name)
        hidden.remove(name)
    product = reduce(_product, factors)
    return product.values.transpose([product.scope.index(name) for name in names])


def _cost(factors: Iterable[_Factor], name: str) -> int:
    """How many numbers the product of the factors of a variable has."""
    sizes = chain.from_iterable(zip(f.scope, f.values.shape, strict=True) for f in factors if name in f.scope)
    return int(np.prod(list(dict(sizes).values())))


def _eliminated(factors: list[_Factor], name: str) -> list[_Factor]:
    product = reduce(_product, (factor for factor in factors if name in factor.scope))
    axis = product.scope.index(name)
    scope = product.scope[:axis] + product.scope[axis + 1 :]
    summed = _Factor(scope, np.asarray(product.values.sum(axis=axis), dtype=object))
    return [*(factor for factor in factors if name not in factor.scope), summed]


def _product(left: _Factor, right: _Factor) -> _Factor:
    scope = left.scope + tuple(name for name in right.scope if name not in left.scope)
    return _Factor(scope, np.asarray(_spread(left, scope) * _spread(right, scope), dtype=object))


def _spread(factor: _Factor, scope: tuple[str, ...]) -> NDArray[np.object_]:
    """The factor's values with the axes of a larger scope, those that it lacks of length 1."""
    present = [name for name in scope if name in factor.scope]
    values = factor.values.transpose([factor.scope.index(name) for name in present])
    return values[tuple(slice(None) if name in factor.scope else None for name in scope)]
