"""Synthetic instances, all of them: the frequencies are the posterior, the orderings permute, the text reads back."""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders.construction import ConstructionError
from builders.posterior.instance import Instance
from builders.posterior.synthetic import (
    FEATURES,
    ORDERINGS,
    Design,
    check_evidence,
    designs,
    evaluation_designs,
    training_designs,
)

ID = re.compile(r"synthetic-k(\d)-p(\d\d)-t(\d)-b(\d+)")


def read(text: str) -> tuple[list[list[int]], list[int]]:
    """(records, new record) of an evidence, read with nothing of the builder's."""
    lines = text.splitlines()
    start = next(number for number, line in enumerate(lines) if line == "y" or line.endswith(",y"))
    table = [[int(cell) for cell in line.split(",")] for line in lines[start + 1 : -2]]
    return table, [int(value) for value in re.findall(r"x\d = ([01])", lines[-1])]


@pytest.fixture(scope="module")
def synthetic(instances: dict[str, list[Instance]]) -> list[Instance]:
    return instances["synthetic"]


def test_the_frequencies_of_every_instance_are_its_q_and_its_posterior(synthetic: list[Instance]) -> None:
    for instance in synthetic:
        k, p, t, slope = map(int, ID.fullmatch(instance.instance_id).groups())
        q = instance.state["q"]
        for text in instance.evidence:
            records, new = read(text)
            assert len(new) == k == instance.n_features and sum(new) == t and tuple(new) == instance.state["features"]
            assert len(records) == 50 * (k + 1) and all(len(record) == k + 1 for record in records)
            positives = [sum(r[-1] for r in records if sum(r[:-1]) == active) for active in range(k + 1)]
            assert Counter(sum(record[:-1]) for record in records) == dict.fromkeys(range(k + 1), 50)
            assert [ones / 50 for ones in positives] == q
        assert instance.posterior == p / 50 == q[t]
        steps = [round(50 * (after - before)) for before, after in pairwise(q)]
        assert steps == [slope] * k and (slope > 0 or k == 0) and q[0] >= 0 and q[-1] <= 1


def test_five_orderings_of_a_test_instance_are_permutations_of_the_same_records(synthetic: list[Instance]) -> None:
    for instance in synthetic:
        read_back = [read(text) for text in instance.evidence]
        assert len(read_back) == (ORDERINGS if instance.split == "test" else 1)
        assert len({tuple(new) for _, new in read_back}) == 1
        assert len({tuple(sorted(map(tuple, records))) for records, _ in read_back}) == 1
    orders = [len(set(instance.evidence)) for instance in synthetic if instance.split == "test"]
    # Two orders of 50 labels may be the same: of one positive record, with chance 1/50.
    assert orders.count(5) >= 190 and min(orders) >= 4


def test_the_test_split_has_every_posterior_for_every_number_of_features(synthetic: list[Instance]) -> None:
    found = Counter((each.n_features, round(50 * each.posterior)) for each in synthetic if each.split == "test")
    assert found == dict.fromkeys(((k, p) for k in FEATURES for p in range(1, 50)), 1)


def test_the_other_splits_have_five_features_and_none_of_the_tests_designs(synthetic: list[Instance]) -> None:
    sizes = Counter(each.split for each in synthetic)
    assert sizes == {"train": 300, "validation": 60, "test": 196}
    assert {each.n_features for each in synthetic if each.split != "test"} == {5}
    assert len({each.instance_id for each in synthetic}) == len(synthetic) == 556
    assert not set(training_designs()) & set(evaluation_designs())
    evidence = [tuple(sorted(map(tuple, read(each.evidence[0])[0]))) for each in synthetic if each.n_features == 5]
    assert len(set(evidence)) == len(evidence)


def test_every_posterior_is_as_frequent_in_training_as_any_other(synthetic: list[Instance]) -> None:
    for split, most in (("train", 8), ("validation", 3)):
        counts = Counter(each.posterior for each in synthetic if each.split == split)
        assert max(counts.values()) <= most
    assert set(Counter(design.p for design in training_designs()).values()) == {7, 8}


def test_every_number_of_active_features_and_many_slopes_occur() -> None:
    for k in FEATURES:
        chosen = [design for design in evaluation_designs() if design.k == k]
        assert {design.t for design in chosen} == set(range(k + 1))
        assert k == 0 or len({design.slope for design in chosen}) >= 8


def test_features_are_uniform_given_the_number_of_active_ones(synthetic: list[Instance]) -> None:
    vectors: Counter[tuple[int, ...]] = Counter()
    for instance in synthetic:
        if instance.n_features == 5:
            vectors.update(tuple(record[:-1]) for record in read(instance.evidence[0])[0])
    for active, ways in enumerate((1, 5, 10, 10, 5, 1)):
        counts = [count for vector, count in vectors.items() if sum(vector) == active]
        expected = sum(counts) / ways
        assert len(counts) == ways
        assert sum((count - expected) ** 2 / expected for count in counts) < 30  # chi square, at most 9 degrees


@given(st.sampled_from(FEATURES), st.integers(1, 49))
def test_designs_are_all_that_the_constraint_allows_and_none_twice(k: int, p: int) -> None:
    found = list(designs(k, p))
    allowed = {
        Design(k, p, t, slope)
        for t in range(k + 1)
        for slope in (range(1, 51) if k else (0,))
        if all(0 <= p + slope * (each - t) <= 50 for each in range(k + 1))
    }
    assert len(found) == len(set(found)) and set(found) == allowed


@pytest.mark.parametrize(("old", "new"), [("\n1,1\n", "\n1,0\n"), ("x1 = 1", "x1 = 0"), ("\n0,0\n", "\n1,0\n")])
def test_a_record_that_is_changed_is_found(synthetic: list[Instance], old: str, new: str) -> None:
    instance = next(each for each in synthetic if each.n_features == 1 and each.state["features"] == (1,))
    design = Design(*map(int, ID.fullmatch(instance.instance_id).groups()))
    check_evidence(design, instance.evidence[0])
    with pytest.raises(ConstructionError, match=design.name):
        check_evidence(design, instance.evidence[0].replace(old, new, 1))
