"""Nucleus sampling with one independent random stream per row, as a logits processor for ``generate``.

``generate`` draws all rows of a batch from one global stream, so an item's text would change with its neighbours. Here
row i at step t inverts the cumulative distribution at the t-th number of its own stream, and ``generate`` merely takes
the maximum of what is left.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from transformers import LogitsProcessor

HEAD = 256
"""Tokens looked at first: their mass nearly always passes top_p, and a full sort of the vocabulary is then saved."""


class SeededSampler(LogitsProcessor):
    """Picks one token per row; scores (rows, vocabulary) -> 0 at the picked token, -inf elsewhere.

    Temperature 0 picks the most likely token. ``seeds`` has one seed per row of the batch.
    """

    def __init__(self, seeds: Sequence[int], temperature: float, top_p: float) -> None:
        self.streams = [np.random.Generator(np.random.PCG64(seed)) for seed in seeds]
        self.temperature = temperature
        self.top_p = top_p

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> Any:
        """The scores with all but each row's drawn token at -inf."""
        draws = torch.tensor([stream.random() for stream in self.streams], dtype=torch.float64)
        picked = scores.argmax(-1) if self.temperature == 0 else self._pick(scores.float(), draws.to(scores.device))
        return torch.full_like(scores, -torch.inf).scatter_(-1, picked.unsqueeze(-1), 0.0)

    def _pick(self, scores: torch.Tensor, draws: torch.Tensor) -> torch.Tensor:
        probabilities = torch.softmax(scores / self.temperature, -1)
        head = probabilities.topk(min(HEAD, probabilities.shape[-1]), -1)
        picked = _nucleus(head.values, head.indices, draws, self.top_p)
        wide = (head.values.sum(-1, dtype=torch.float64) < self.top_p).nonzero().squeeze(-1)
        if len(wide):
            # Row by row, so that what a row gets never depends on how flat its neighbours are.
            full = torch.sort(probabilities[wide], dim=-1, descending=True, stable=True)
            picked[wide] = _nucleus(full.values, full.indices, draws[wide], self.top_p)
        return picked


def _nucleus(values: torch.Tensor, indices: torch.Tensor, draws: torch.Tensor, top_p: float) -> torch.Tensor:
    """The token at quantile ``draws`` (rows,) of the smallest head whose mass reaches top_p; values sorted, falling."""
    cumulative = values.double().cumsum(-1)
    kept = (cumulative - values.double() < top_p).sum(-1, keepdim=True)
    mass = cumulative.gather(-1, kept - 1)
    position = torch.searchsorted(cumulative, draws.unsqueeze(-1) * mass, right=True)
    return indices.gather(-1, position.minimum(kept - 1)).squeeze(-1)
