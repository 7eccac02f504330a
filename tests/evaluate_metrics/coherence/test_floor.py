import numpy as np
import pytest

from evaluate_metrics.coherence.floor import excess, noise_floor, read_spread


def test_the_floor_is_the_papers_formula(rng):
    """m of two Gaussian draws is 2 sigma / sqrt(pi): in sigmas, Eq. 4 comes out."""
    sigma_c, sigma_a = 0.04, 0.07
    m_c, m_a = (2 * sigma / np.sqrt(np.pi) for sigma in (sigma_c, sigma_a))
    expected = np.sqrt(2 / np.pi) * np.sqrt(sigma_c**2 + sigma_a**2 / 5)
    assert noise_floor(m_c, m_a) == pytest.approx(expected, rel=1e-12)
    drawn = rng.normal(0, sigma_c, 10**6) - rng.normal(0, sigma_a, (10**6, 5)).mean(axis=1)
    assert noise_floor(m_c, m_a) == pytest.approx(np.abs(drawn).mean(), rel=5e-3)


def test_the_excess_adds_up_in_squares_and_stops_at_zero():
    assert excess(0.05, 0.03) == pytest.approx(0.04)
    assert excess(0.02, 0.03) == 0
    assert excess(np.array([0.05, 0.02]), np.array([0.03, 0.03])).tolist() == pytest.approx([0.04, 0])


def test_a_spread_is_a_number_or_its_differences(rng):
    assert read_spread("m", None) is None
    number, differences = read_spread("m", 0.04), read_spread("m", [0.0, 0.1, 0.2])
    assert (number.mean, differences.mean) == (0.04, pytest.approx(0.1))
    assert number.resample(3, rng).tolist() == [0.04] * 3
    assert differences.resample(4000, rng).std() == pytest.approx(np.std([0, 0.1, 0.2]) / np.sqrt(3), rel=0.1)


@pytest.mark.parametrize("spread", [-0.1, 1.5, float("nan"), [], [[0.1, 0.2]], [0.1, None]])
def test_what_is_no_spread_is_refused(spread):
    with pytest.raises(ValueError, match="decision_spread"):
        read_spread("decision_spread", spread)
