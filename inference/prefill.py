"""Prompts computed once: what a batch has in common is not run through the model again for every row.

The prompts of one case begin with the same role and evidence, and repetitions are the same prompt altogether. A batch's
common beginning is run once for all rows, each distinct ending once, and the key-value cache is then spread over the
rows. Of 80 Direct prompts of one case (two repetitions of 40, about 320 tokens each, 140 of them common) 7,340 tokens
are run instead of 25,600. The arithmetic is the same up to floating point.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import torch
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer

from inference.cpu_attention import ReservedLayer

Ids = list[int]
T = TypeVar("T")

COMMON = 32
"""Tokens that two neighbours must share, beyond what all prompts share, to belong to one group."""


def common_length(first: Ids, second: Ids) -> int:
    """How many leading tokens two prompts share."""
    return next(
        (i for i, (a, b) in enumerate(zip(first, second, strict=False)) if a != b), min(len(first), len(second))
    )


def batches(rendered: Sequence[tuple[T, Ids]], size: int) -> Iterator[list[tuple[T, Ids]]]:
    """The prompts in batches of at most ``size`` rows that begin alike; a group of less than half joins the next.

    Prompts that begin alike are about equally long, so little is padded.
    """
    ordered = sorted(rendered, key=lambda pair: pair[1])
    everywhere = common_length(ordered[0][1], ordered[-1][1]) if ordered else 0
    batch: list[tuple[T, Ids]] = []
    for pair in ordered:
        ends = bool(batch) and common_length(batch[-1][1], pair[1]) < everywhere + COMMON
        if len(batch) == size or (ends and len(batch) >= size / 2):
            yield batch
            batch = []
        batch.append(pair)
    if batch:
        yield batch


def shareable(model: Any) -> bool:
    """Whether every layer caches plain keys and values; sliding-window and linear attention are run row by row."""
    cache = DynamicCache(config=model.config.get_text_config())
    return bool(cache.layers) and all(type(layer) is DynamicLayer for layer in cache.layers)


def prefilled(model: Any, prompts: Sequence[Ids], pad_id: int) -> dict[str, Any]:
    """Arguments for ``generate`` with all but the last token of every prompt already in the cache.

    ``input_ids`` and ``attention_mask`` are (rows, longest prompt); padding stands between the common beginning and
    the ending, so that the beginning lies at the same positions in every row.
    """
    distinct = list(dict.fromkeys(map(tuple, prompts)))
    common = min(common_length(list(min(distinct)), list(max(distinct))), min(map(len, distinct)) - 1)
    longest = max(map(len, distinct))
    gaps = [longest - len(prompt) for prompt in distinct]
    ids = torch.tensor([[*p[:common], *[pad_id] * gap, *p[common:]] for p, gap in zip(distinct, gaps, strict=True)])
    mask = torch.ones_like(ids)
    for row, gap in enumerate(gaps):
        mask[row, common : common + gap] = 0
    ids, mask = ids.to(model.device), mask.to(model.device)
    positions = mask.cumsum(-1) - 1

    cache = DynamicCache(config=model.config.get_text_config())
    cache.layers = [ReservedLayer() for _ in cache.layers]
    with torch.inference_mode():
        if common:
            model(ids[:1, :common], past_key_values=cache, use_cache=True, logits_to_keep=1)
            cache.batch_repeat_interleave(len(distinct))
        if common < longest - 1:
            model(
                ids[:, common:-1],
                attention_mask=mask[:, :-1],
                position_ids=positions[:, common:-1].clamp(min=0),
                past_key_values=cache,
                use_cache=True,
                logits_to_keep=1,
            )
        place = {prompt: row for row, prompt in enumerate(distinct)}
        rows = torch.tensor([place[tuple(prompt)] for prompt in prompts], device=model.device)
        cache.batch_select_indices(rows)
    return {"input_ids": ids[rows], "attention_mask": mask[rows], "past_key_values": cache}
