"""Top-p in vLLM on a CPU without a sort of the whole vocabulary, which takes a third of a step there.

The tokens behind the nucleus are taken out of the likeliest 256, whose mass nearly always passes top-p; a row that is
flatter is sorted whole. vLLM draws from what is left with the request's own stream. A request says its mass in
``extra_args``, and leaves vLLM's own top-p at 1::

    SamplingParams(top_p=1.0, extra_args={"top_p": 0.95}, ...)
"""

from __future__ import annotations

from typing import Any

import torch
from vllm.v1.sample.logits_processor import LogitsProcessor
from vllm.v1.sample.logits_processor.builtin import process_dict_updates

HEAD = 256
"""Tokens looked at first."""


class HeadTopP(LogitsProcessor):  # type: ignore[misc]
    """Sets the logits behind each row's nucleus to -inf; runs after the temperature, where vLLM's own top-p does."""

    def __init__(self, vllm_config: Any, device: Any, is_pin_memory: bool) -> None:
        self.top_p: dict[int, float] = {}

    def is_argmax_invariant(self) -> bool:
        """The likeliest token is always in the nucleus."""
        return True

    def update_state(self, batch_update: Any) -> None:
        """Keeps row -> top-p as requests come, go and change rows."""
        process_dict_updates(self.top_p, batch_update, lambda params, _, __: (params.extra_args or {}).get("top_p"))

    def apply(self, logits: torch.Tensor) -> torch.Tensor:
        """Logits (rows, vocabulary) with all but the nucleus of each row at -inf."""
        rows = sorted(row for row, mass in self.top_p.items() if mass < 1)
        if not rows:
            return logits
        mass = torch.tensor([self.top_p[row] for row in rows], dtype=torch.float64)
        if len(rows) == len(logits):
            return narrow(logits, mass)
        logits[rows] = narrow(logits[rows], mass)
        return logits


def narrow(logits: torch.Tensor, mass: torch.Tensor) -> torch.Tensor:
    """Leaves of the logits (rows, vocabulary), in place, each row's smallest head whose probability reaches its mass.

    Everything else is -inf.
    """
    total = logits.logsumexp(-1, keepdim=True)
    head = logits.topk(min(HEAD, logits.shape[-1]), -1)
    kept, wide = _nucleus(head.values, total, mass)
    # One by one, so that what a row gets never depends on how flat its neighbours are.
    whole = {row: _sorted_nucleus(logits[row], total[row], mass[row]) for row in wide.tolist()}
    logits.fill_(-torch.inf).scatter_(-1, head.indices, kept)
    for row, found in whole.items():
        logits[row] = found
    return logits


def _sorted_nucleus(row: torch.Tensor, total: torch.Tensor, mass: torch.Tensor) -> torch.Tensor:
    """What is left of one row (vocabulary), found by sorting all of it."""
    full = row.unsqueeze(0).sort(dim=-1, descending=True, stable=True)
    kept, _ = _nucleus(full.values, total.unsqueeze(0), mass.unsqueeze(0))
    return torch.full_like(row, -torch.inf).scatter_(-1, full.indices[0], kept[0])


def _nucleus(values: torch.Tensor, total: torch.Tensor, mass: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Falling logits (rows, n) with those behind the nucleus at -inf, and the rows whose nucleus is wider than n."""
    probabilities = (values - total).exp().double()
    cumulative = probabilities.cumsum(-1)
    outside = cumulative - probabilities >= mass.unsqueeze(-1)
    return values.masked_fill(outside, -torch.inf), (cumulative[:, -1] < mass).nonzero().squeeze(-1)
