"""Faster decoding computes the same numbers, and really is in place."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings
from transformers.cache_utils import DynamicLayer
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from inference.cpu_attention import RESERVE, ReservedLayer, grouped_attention

MODES = {"inference": torch.inference_mode, "no_grad": torch.no_grad}

steps = st.lists(
    st.one_of(
        st.tuples(st.just("update"), st.sampled_from([1, 1, 2, 5, RESERVE - 1, RESERVE + 1])),
        st.tuples(st.just("select"), st.lists(st.integers(0, 99), min_size=1, max_size=4)),
        st.tuples(st.just("repeat"), st.integers(1, 3)),
        st.tuples(st.just("crop"), st.integers(1, 3)),
        st.tuples(st.just("reset"), st.none()),
    ),
    max_size=12,
)


def states(generator: torch.Generator, rows: int, length: int) -> tuple[torch.Tensor, torch.Tensor]:
    shape = (rows, 2, length, 4)
    return torch.randn(shape, generator=generator), torch.randn(shape, generator=generator)


def apply(layer: DynamicLayer, step: tuple[str, Any], new: tuple[torch.Tensor, torch.Tensor] | None) -> None:
    """One operation that ``generate`` or ``prefilled`` does to a layer of the cache."""
    name, value = step
    if name == "update" and new is not None:
        keys, values = layer.update(*new)
        assert keys is layer.keys and values is layer.values
    elif name == "select":
        layer.batch_select_indices(torch.tensor(value))
    elif name == "repeat":
        layer.batch_repeat_interleave(value)
    elif name == "crop" and layer.get_seq_length() > value:
        layer.crop(-value)
    elif name == "reset":
        layer.reset()


@pytest.mark.parametrize("mode", MODES)
@settings(max_examples=120, deadline=None)
@given(steps=steps)
def test_a_reserved_layer_equals_a_dynamic_one(mode: str, steps: list[tuple[str, Any]]) -> None:
    generator = torch.Generator().manual_seed(1)
    plain, reserved = DynamicLayer(), ReservedLayer()
    with MODES[mode]():
        for name, value in [("update", 3), *steps]:
            empty = plain.get_seq_length() == 0
            rows = 2 if empty else plain.keys.shape[0]
            if name != "update" and empty:
                continue
            step = (name, [i % rows for i in value] if name == "select" else value)
            new = states(generator, rows, value) if name == "update" else None
            apply(plain, step, new)
            apply(reserved, step, new)
            assert reserved.get_seq_length() == plain.get_seq_length()
            if plain.get_seq_length():
                assert torch.equal(plain.keys, reserved.keys) and torch.equal(plain.values, reserved.values)


@pytest.mark.parametrize("mode", MODES)
def test_a_new_token_is_written_not_appended(mode: str) -> None:
    """In inference mode, which generation runs in, a view has no ``_base``: the layer must know its buffer itself."""
    generator = torch.Generator().manual_seed(1)
    layer = ReservedLayer()
    with MODES[mode]():
        layer.update(*states(generator, 2, 300))
        layer.batch_select_indices(torch.tensor([0, 1, 1]))
        places = [layer.update(*states(generator, 3, 1))[0].data_ptr() for _ in range(RESERVE + 2)]
    assert places == [places[0]] * (RESERVE + 1) + [places[-1]] and places[0] != places[-1]


def test_selected_rows_do_not_share_memory() -> None:
    generator = torch.Generator().manual_seed(1)
    layer = ReservedLayer()
    with torch.inference_mode():
        layer.update(*states(generator, 1, 3))
        layer.batch_select_indices(torch.tensor([0, 0]))
        keys, _ = layer.update(*states(generator, 2, 1))
    assert torch.equal(keys[0, :, :3], keys[1, :, :3]) and not torch.equal(keys[0, :, 3], keys[1, :, 3])


def _masks(rows: int, new: int, total: int) -> Iterator[tuple[str, torch.Tensor | None]]:
    yield "none", None
    causal = torch.ones(new, total, dtype=torch.bool).tril(total - new)
    padded = causal.expand(rows, 1, new, total).clone()
    padded[0, :, :, :2] = False
    padded[0, :, :2, 0] = True  # no query is left without a key
    yield "padded", padded


@pytest.mark.parametrize("heads", [2, 4])
@pytest.mark.parametrize(("new", "past"), [(1, 6), (7, 0), (3, 5)])
@pytest.mark.parametrize("scaling", [None, 0.3])
def test_grouped_attention_equals_that_of_transformers(heads: int, new: int, past: int, scaling: float | None) -> None:
    generator = torch.Generator().manual_seed(1)
    query = torch.randn((2, heads, new, 8), generator=generator)
    key, value = (torch.randn((2, 2, past + new, 8), generator=generator) for _ in range(2))
    module: Any = SimpleNamespace(num_key_value_groups=heads // 2, is_causal=True, training=False)
    for name, mask in _masks(2, new, past + new):
        if name == "none" and new > 1 and past:
            continue  # transformers always makes a mask then
        ours, weights = grouped_attention(module, query, key, value, mask, scaling)
        theirs, _ = sdpa_attention_forward(module, query, key, value, mask, scaling=scaling)
        torch.testing.assert_close(ours, theirs, atol=1e-6, rtol=1e-5)
        assert weights is None and ours.is_contiguous()
