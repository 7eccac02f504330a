"""Seeded nucleus sampling: the right distribution, one stream per row, nothing learnt from the neighbours."""

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from scipy import stats

from inference.sampling import HEAD, SeededSampler

IDS = torch.zeros((1, 1), dtype=torch.long)
WIDTH = 2 * HEAD + 88


def picks(rows: torch.Tensor, seeds: list[int], temperature: float = 0.7, top_p: float = 0.95) -> list[int]:
    """The first token of every row."""
    scores = SeededSampler(seeds, temperature, top_p)(IDS, rows)
    assert torch.isfinite(scores).sum(-1).tolist() == [1] * len(rows)
    return scores.argmax(-1).tolist()


def nucleus(logits: np.ndarray, temperature: float, top_p: float) -> np.ndarray:
    """The exact distribution: the fewest most likely tokens whose mass reaches top_p, renormalised."""
    p = np.exp((logits - logits.max()) / temperature)
    p /= p.sum()
    order = np.argsort(-p, kind="stable")
    kept = order[: int(np.searchsorted(np.cumsum(p[order]), top_p)) + 1]
    result = np.zeros_like(p)
    result[kept] = p[kept] / p[kept].sum()
    return result


def row(kind: str, width: int = WIDTH) -> torch.Tensor:
    """Logits of a next token: a few likely ones, or so flat that the nucleus is wider than the head."""
    scale = {"peaked": 4.0, "flat": 0.05}[kind]
    return torch.tensor(np.random.default_rng(len(kind)).normal(0, scale, width), dtype=torch.float32)


@pytest.mark.parametrize("kind", ["peaked", "flat"])
@pytest.mark.parametrize(("temperature", "top_p"), [(0.7, 0.95), (1.3, 0.5), (0.7, 1.0)])
def test_the_distribution_is_the_exact_nucleus(kind: str, temperature: float, top_p: float) -> None:
    logits, draws = row(kind), 12_000
    got = np.bincount(picks(logits.expand(draws, -1), list(range(draws)), temperature, top_p), minlength=WIDTH)
    expected = nucleus(logits.double().numpy(), temperature, top_p) * draws
    assert got[expected == 0].sum() == 0
    rare = expected < 5
    counts = np.append(got[~rare], got[rare].sum())
    cells = np.append(expected[~rare], expected[rare].sum())
    counts, cells = counts[cells > 0], cells[cells > 0]
    assert stats.chisquare(counts, cells).pvalue > 1e-4


def test_the_flat_row_takes_the_full_sort() -> None:
    p = nucleus(row("flat").double().numpy(), 0.7, 0.95)
    assert (p > 0).sum() > HEAD
    chosen = picks(row("flat").expand(4000, -1), list(range(4000)))
    assert len(set(chosen)) > HEAD


@pytest.mark.parametrize(
    ("top_p", "kept"), [(0.4999, {0}), (0.5001, {0, 1}), (0.7501, {0, 1, 2}), (1.0, {0, 1, 2, 3}), (1e-9, {0})]
)
def test_the_nucleus_is_the_smallest_head_that_reaches_top_p(top_p: float, kept: set[int]) -> None:
    logits = torch.log(torch.tensor([0.5, 0.25, 0.15, 0.1]))
    assert set(picks(logits.expand(400, -1), list(range(400)), 1.0, top_p)) == kept


@pytest.mark.parametrize("top_p", [0.5, 0.95, 1.0])
def test_temperature_zero_takes_the_maximum(top_p: float) -> None:
    rows = torch.stack([row("peaked"), row("flat"), -row("peaked")])
    assert picks(rows, [1, 2, 3], 0, top_p) == rows.argmax(-1).tolist()


@pytest.mark.parametrize("temperature", [0.0, 0.7])
@pytest.mark.parametrize("allowed", [1, 3, HEAD + 40])
@pytest.mark.parametrize("top_p", [0.95, 1.0])
def test_masked_tokens_are_never_picked(temperature: float, allowed: int, top_p: float) -> None:
    logits = row("flat")
    masked = torch.randperm(WIDTH, generator=torch.Generator().manual_seed(1))[allowed:]
    logits[masked] = -torch.inf
    assert not set(picks(logits.expand(300, -1), list(range(300)), temperature, top_p)) & set(masked.tolist())


@pytest.mark.parametrize("width", [5, HEAD, WIDTH])
@pytest.mark.parametrize("temperature", [0.0, 0.7])
def test_ties_are_broken_the_same_way_every_time(width: int, temperature: float) -> None:
    logits = torch.zeros(width)
    first = picks(logits.expand(50, -1), list(range(50)), temperature)
    assert first == [picks(logits.expand(1, -1), [seed], temperature)[0] for seed in range(50)]


def test_the_streams_of_a_row_go_on_and_differ_by_seed() -> None:
    sampler = SeededSampler([7, 8, 7], 0.7, 0.95)
    logits = row("flat").expand(3, -1)
    steps = [sampler(IDS, logits).argmax(-1).tolist() for _ in range(20)]
    assert [step[0] for step in steps] == [step[2] for step in steps] != [step[1] for step in steps]
    assert len({step[0] for step in steps}) > 10


def test_half_precision_scores_keep_their_type() -> None:
    scores = SeededSampler([1], 0.7, 0.95)(IDS, row("peaked").bfloat16()[None])
    assert scores.dtype == torch.bfloat16 and scores.max() == 0


@settings(max_examples=60, deadline=None)
@given(
    scales=st.lists(st.sampled_from([0.0, 0.05, 1.0, 8.0]), min_size=1, max_size=6),
    seed=st.integers(0, 2**31 - 1),
    temperature=st.sampled_from([0.0, 0.3, 0.7, 1.5]),
    top_p=st.sampled_from([0.1, 0.9, 0.95, 1.0]),
    width=st.sampled_from([4, HEAD - 1, HEAD, HEAD + 1, WIDTH]),
)
def test_a_row_never_depends_on_its_neighbours(
    scales: list[float], seed: int, temperature: float, top_p: float, width: int
) -> None:
    generator = np.random.default_rng(seed)
    rows = torch.tensor(np.stack([generator.normal(0, scale, width) for scale in scales]), dtype=torch.float32)
    seeds = [seed + i for i in range(len(scales))]
    alone = [picks(rows[i : i + 1], seeds[i : i + 1], temperature, top_p)[0] for i in range(len(scales))]
    assert picks(rows, seeds, temperature, top_p) == alone
    assert picks(rows.flip(0), seeds[::-1], temperature, top_p) == alone[::-1]
