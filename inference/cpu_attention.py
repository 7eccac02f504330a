"""Faster decoding on a CPU: attention that reads shared key-value heads in place, and a cache that grows in place.

In a decoding step of a small model, transformers spends most of its time copying: the keys and values of every past
token are repeated once per query head, and the whole cache is concatenated anew for one more token. PyTorch's CPU
kernel takes grouped heads as they are, and the cache can reserve room. The numbers computed are the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.cache_utils import DynamicLayer
from transformers.masking_utils import sdpa_mask

GROUPED = "grouped_sdpa"
RESERVE = 128
"""Tokens of room that a cache layer sets aside each time it is full."""


def grouped_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    is_causal: bool | None = None,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    """Attention of query (rows, heads, new, width) over key and value (rows, groups, past + new, width), no dropout."""
    causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
    output = scaled_dot_product_attention(
        query,
        key,
        value,
        attn_mask=attention_mask,
        scale=scaling,
        is_causal=causal and attention_mask is None and query.shape[2] > 1,
        enable_gqa=query.shape[1] != key.shape[1],
    )
    return output.transpose(1, 2).contiguous(), None


class ReservedLayer(DynamicLayer):
    """A cache layer whose keys and values are views of larger buffers, so that a new token is written, not appended."""

    _rooms: Sequence[torch.Tensor] = ()

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Adds states (rows, groups, new, width) and returns all of them."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        past: Any = (self.keys, self.values)
        new = (key_states, value_states)
        rooms = [_written(*each) for each in zip(self._rooms or past, past, new, strict=True)]
        total = self.get_seq_length() + key_states.shape[-2]
        self._rooms = rooms
        self.keys, self.values = (room[..., :total, :] for room in rooms)
        return self.keys, self.values


def _written(room: torch.Tensor, past: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
    """The buffer with ``new`` behind ``past``; another, larger one if ``past`` does not lie in it or it is full.

    The buffer is kept beside its view: in inference mode a view does not know what it is a view of.
    """
    length = past.shape[-2] if past.numel() else 0
    total = length + new.shape[-2]
    in_place = length and room.data_ptr() == past.data_ptr() and room.shape[:-2] == past.shape[:-2]
    if not in_place or room.shape[-2] < total:
        room = new.new_empty((*new.shape[:-2], total + RESERVE, new.shape[-1]))
        if length:
            room[..., :length, :] = past
    room[..., length:total, :] = new
    return room


def use_grouped_attention(model: Any) -> None:
    """Switches a model that runs on the CPU with PyTorch's attention to :func:`grouped_attention`."""
    if model.device.type == "cpu" and model.config._attn_implementation == "sdpa":
        AttentionInterface.register(GROUPED, grouped_attention)
        AttentionMaskInterface.register(GROUPED, sdpa_mask)
        model.set_attn_implementation(GROUPED)
