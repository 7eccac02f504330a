import numpy as np
import pytest
from scipy import stats

from evaluate_metrics.coherence import resampling
from evaluate_metrics.coherence.resampling import bootstrap_means, percentile_interval, unit_sums, wilson_interval


@pytest.fixture
def sample(rng):
    """values, valid (items, 2) and units (items,): 25 units of unequal size whose means differ."""
    units = np.repeat(np.arange(25), rng.integers(1, 30, 25))
    values = np.stack([rng.normal(units * 0.1, 1.0), rng.random(len(units)) < 0.3], axis=1).astype(float)
    return values, rng.random(values.shape) < 0.8, units


def test_draws_equal_a_plain_loop_over_the_items(sample):
    values, valid, units = sample
    draws = bootstrap_means(values, valid, units, 50, np.random.default_rng(7))
    drawn = np.random.default_rng(7).integers(0, 25, size=(50, 25))
    for resample, chosen in enumerate(drawn):
        items = np.concatenate([np.flatnonzero(units == unit) for unit in chosen])
        for measure in range(2):
            kept = values[items, measure][valid[items, measure]]
            assert draws[resample, measure] == pytest.approx(kept.mean(), rel=1e-12)


def test_chunks_change_nothing(sample, monkeypatch):
    values, valid, units = sample
    whole = bootstrap_means(values, valid, units, 100, np.random.default_rng(7))
    monkeypatch.setattr(resampling, "CHUNK_CELLS", 25 * 7)
    # The draws are the same; the last bit of a product may depend on the shape of its matrices.
    chunked = bootstrap_means(values, valid, units, 100, np.random.default_rng(7))
    np.testing.assert_allclose(chunked, whole, rtol=1e-13)


def test_the_interval_agrees_with_scipy(sample):
    values, valid, units = sample
    values[:, 1] = values[:, 0]
    sums, counts = unit_sums(np.where(valid, values, 0), units)[:, 0], unit_sums(valid, units)[:, 0]

    def mean(sums, counts, axis):
        return sums.sum(axis) / counts.sum(axis)

    expected = stats.bootstrap(
        (sums, counts),
        mean,
        paired=True,
        vectorized=True,
        method="percentile",
        n_resamples=20_000,
        rng=np.random.default_rng(1),
    ).confidence_interval
    interval = percentile_interval(bootstrap_means(values, valid, units, 20_000, np.random.default_rng(2))[:, 0])
    width = expected.high - expected.low
    assert interval == pytest.approx([expected.low, expected.high], abs=0.03 * width)


def test_whole_units_are_drawn():
    """Twenty equal items in each of four units: as items they would look like eighty observations."""
    units = np.repeat(np.arange(4), 20)
    values, valid = (units[:, None] % 2).astype(float), np.ones((80, 1), bool)
    by_unit = bootstrap_means(values, valid, units, 2000, np.random.default_rng(1))[:, 0]
    by_item = bootstrap_means(values, valid, np.arange(80), 2000, np.random.default_rng(1))[:, 0]
    assert set(np.round(by_unit, 6)) == {0, 0.25, 0.5, 0.75, 1}
    assert by_unit.std() == pytest.approx(0.25, rel=0.1)
    assert by_item.std() == pytest.approx(0.5 / np.sqrt(80), rel=0.1)


def test_a_resample_without_a_valid_item_is_undefined_and_left_out():
    valid = np.array([[True], [False], [False]])
    draws = bootstrap_means(np.ones((3, 1)), valid, np.arange(3), 500, np.random.default_rng(1))[:, 0]
    assert 0 < np.isnan(draws).mean() < 0.6
    assert percentile_interval(draws) == [1.0, 1.0]
    assert percentile_interval(np.full(3, np.nan)) is None


def test_no_items_no_draws():
    draws = bootstrap_means(np.empty((0, 2)), np.empty((0, 2), bool), np.empty(0, int), 5, np.random.default_rng(1))
    assert draws.shape == (5, 2) and np.isnan(draws).all()


@pytest.mark.parametrize("n", [1, 2, 10, 80, 25_600])
@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_wilson_agrees_with_scipy(n, share):
    successes = round(share * n)
    expected = stats.binomtest(successes, n).proportion_ci(method="wilson")
    assert wilson_interval(successes / n, n) == pytest.approx([expected.low, expected.high], abs=1e-12)


def test_wilson_needs_a_unit():
    with pytest.raises(ValueError, match="at least one unit"):
        wilson_interval(0.0, 0)
