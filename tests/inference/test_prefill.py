"""Prompts computed once give the same next token as prompts computed one by one."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings
from transformers import AutoModelForCausalLM, DynamicCache

from inference.cpu_attention import GROUPED, ReservedLayer, use_grouped_attention
from inference.prefill import COMMON, batches, common_length, prefilled, shareable

PAD = 2
Ids = list[int]


@pytest.fixture(scope="module")
def models(variant: Callable[..., Path], model_folder: Path) -> dict[str, Any]:
    folders = {"llama": model_folder, "qwen2": variant("qwen2"), "mistral": variant("mistral")}
    loaded = {name: AutoModelForCausalLM.from_pretrained(path).eval() for name, path in folders.items()}
    loaded["llama-grouped"] = AutoModelForCausalLM.from_pretrained(model_folder).eval()
    use_grouped_attention(loaded["llama-grouped"])
    assert loaded["llama-grouped"].config._attn_implementation == GROUPED
    return loaded


def alone(model: Any, prompts: list[Ids]) -> torch.Tensor:
    """Next-token logits of a plain left-padded batch."""
    longest = max(map(len, prompts))
    ids = torch.tensor([[PAD] * (longest - len(p)) + p for p in prompts])
    mask = torch.tensor([[0] * (longest - len(p)) + [1] * len(p) for p in prompts])
    positions = (mask.cumsum(-1) - 1).clamp(min=0)
    with torch.inference_mode():
        return model(ids, attention_mask=mask, position_ids=positions).logits[:, -1]


def shared(model: Any, prompts: list[Ids]) -> torch.Tensor:
    """Next-token logits from the prefilled cache, the last token run as ``generate`` runs it."""
    inputs = prefilled(model, prompts, PAD)
    ids, mask, cache = inputs["input_ids"], inputs["attention_mask"], inputs["past_key_values"]
    assert ids.shape == mask.shape == (len(prompts), max(map(len, prompts)))
    assert cache.get_seq_length() == ids.shape[1] - 1
    assert [row[m.bool()].tolist() for row, m in zip(ids, mask, strict=True)] == prompts
    positions = mask.cumsum(-1)[:, -1:] - 1
    with torch.inference_mode():
        return model(ids[:, -1:], attention_mask=mask, position_ids=positions, past_key_values=cache).logits[:, -1]


def text(seed: int, length: int) -> Ids:
    return torch.randint(5, 600, (length,), generator=torch.Generator().manual_seed(seed)).tolist()


COMMON_TEXT = text(0, 40)
PROMPTS = {
    "unequal lengths": [COMMON_TEXT + text(1, 7), COMMON_TEXT + text(2, 30), COMMON_TEXT + text(3, 1)],
    "repetitions": [COMMON_TEXT + text(1, 7), COMMON_TEXT + text(2, 3), COMMON_TEXT + text(1, 7)],
    "nothing in common": [[5, *text(1, 20)], [6, *text(2, 33)], [7, *text(3, 4)]],
    "identical": [COMMON_TEXT] * 4,
    "one prompt": [COMMON_TEXT],
    "a prefix of another": [COMMON_TEXT, COMMON_TEXT + text(1, 12), COMMON_TEXT[:25]],
    "all but the last token in common": [[*COMMON_TEXT, 9], [*COMMON_TEXT, 10]],
    "one token": [[5], [5]],
    "one token before a longer one": [[5], [5, 6, 7]],
    "one token and another beginning": [[5], [6, 7, 8, 9]],
}


@pytest.mark.parametrize("name", ["llama", "llama-grouped", "qwen2"])
@pytest.mark.parametrize("prompts", PROMPTS.values(), ids=PROMPTS)
def test_prefilled_prompts_give_the_logits_of_plain_ones(models: dict[str, Any], name: str, prompts: list[Ids]) -> None:
    torch.testing.assert_close(shared(models[name], prompts), alone(models[name], prompts), atol=1e-4, rtol=0)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(st.sampled_from([5, 6]), min_size=1, max_size=9), min_size=1, max_size=6))
def test_any_prompts_can_be_prefilled(models: dict[str, Any], prompts: list[Ids]) -> None:
    model = models["llama-grouped"]
    torch.testing.assert_close(shared(model, prompts), alone(model, prompts), atol=1e-4, rtol=0)


def test_the_common_beginning_is_run_once(models: dict[str, Any]) -> None:
    prompts = PROMPTS["repetitions"]
    tokens: list[int] = []
    embedding = models["llama"].get_input_embeddings()
    hook = embedding.register_forward_hook(lambda _, inputs, __: tokens.append(inputs[0].numel()))
    try:
        prefilled(models["llama"], prompts, PAD)
    finally:
        hook.remove()
    # 40 common tokens once, then two distinct endings of 7 tokens, less the last one that generate runs.
    assert tokens == [40, 2 * 6]


def test_only_plain_caches_are_shared(models: dict[str, Any]) -> None:
    assert shareable(models["llama"]) and shareable(models["qwen2"]) and not shareable(models["mistral"])


def test_the_shared_cache_grows_in_place(models: dict[str, Any]) -> None:
    cache = prefilled(models["llama"], PROMPTS["unequal lengths"], PAD)["past_key_values"]
    assert isinstance(cache, DynamicCache) and all(type(layer) is ReservedLayer for layer in cache.layers)


@settings(max_examples=200, deadline=None)
@given(
    stems=st.lists(st.lists(st.integers(0, 1), max_size=4), max_size=6),
    endings=st.lists(st.tuples(st.integers(0, 5), st.lists(st.integers(0, 2), min_size=1, max_size=4)), max_size=25),
    size=st.integers(1, 7),
)
def test_batches_are_a_partition_that_keeps_groups_together(
    stems: list[Ids], endings: list[tuple[int, Ids]], size: int
) -> None:
    long = [[3 + digit for digit in stem for _ in range(COMMON)] for stem in stems] or [[]]
    prompts = [(number, long[stem % len(long)] + ending) for number, (stem, ending) in enumerate(endings)]
    parts = list(batches(prompts, size))
    assert sorted(pair for part in parts for pair in part) == sorted(prompts)
    assert all(1 <= len(part) <= size for part in parts)
    ids = sorted(ids for _, ids in prompts)
    everywhere = common_length(ids[0], ids[-1]) if ids else 0
    for part, following in pairwise(parts):
        new_group = common_length(part[-1][1], following[0][1]) < everywhere + COMMON
        assert len(part) == size or (new_group and len(part) >= size / 2)


def test_a_group_that_fills_half_a_batch_has_it_for_itself() -> None:
    first, second = [1, *[7] * COMMON], [2, *[7] * COMMON]
    parts = list(batches([(0, [*second, 1]), (1, [*first, 1]), (2, [*second, 2]), (3, [*first, 2])], 4))
    assert [[number for number, _ in part] for part in parts] == [[1, 3], [0, 2]]
    assert len(list(batches([(0, [*first, 1]), (1, [*second, 1])], 4))) == 1


@given(st.lists(st.integers(0, 1), max_size=6), st.lists(st.integers(0, 1), max_size=6))
def test_common_length(first: Ids, second: Ids) -> None:
    n = common_length(first, second)
    assert first[:n] == second[:n] and n == common_length(second, first)
    assert n in (len(first), len(second)) or first[n] != second[n]
