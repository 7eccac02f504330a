"""The draws: the same for the same name, everywhere and always, and fair."""

from collections import Counter
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders.posterior.draws import Draws


def test_a_stream_is_pinned_by_its_name() -> None:
    draws, again, other = Draws("a"), Draws("a"), Draws("a", 1)
    assert [draws.below(100) for _ in range(6)] == [again.below(100) for _ in range(6)] == [43, 61, 53, 85, 19, 62]
    assert [other.below(100) for _ in range(6)] != [43, 61, 53, 85, 19, 62]


@given(st.text(max_size=8), st.integers(1, 1 << 64))
def test_a_number_is_below_its_bound(name: str, bound: int) -> None:
    assert 0 <= Draws(name).below(bound) < bound


@given(st.text(max_size=8), st.lists(st.integers(), max_size=30))
def test_shuffled_items_are_the_same_items(name: str, items: list[int]) -> None:
    assert Counter(Draws(name).shuffled(items)) == Counter(items)


def test_every_order_and_every_number_is_as_likely_as_any_other() -> None:
    draws = Draws("fair")
    orders = Counter(tuple(draws.shuffled("abc")) for _ in range(6000))
    assert set(orders) == set(permutations("abc")) and all(abs(count - 1000) < 120 for count in orders.values())
    units = [draws.unit() for _ in range(10_000)]
    assert min(units) > 0 and max(units) <= 1 and abs(sum(units) / 10_000 - 0.5) < 0.01


def test_an_index_is_as_likely_as_its_weight() -> None:
    draws = Draws("weights")
    counts = Counter(draws.weighted([1, 0, 3]) for _ in range(8000))
    assert counts[1] == 0 and counts[0] == pytest.approx(2000, abs=150)
