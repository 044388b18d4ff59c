import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from campaigns.analysis.scaling import Scaling, fit_scaling, usl

DOUBLING = (1, 2, 4, 8, 16, 32, 64, 128)
# Baron Schwartz's reference measurements (32 levels), as used by the public USL libraries.
REFERENCE = (
    955.16, 1878.91, 2688.01, 3548.68, 4315.54, 5130.43, 5931.37, 6531.08, 7219.8, 7867.61, 8278.71, 8646.7, 9047.84,
    9426.55, 9645.37, 9897.24, 10097.6, 10240.5, 10532.39, 10798.52, 11151.43, 11518.63, 11806, 12089.37, 12075.41,
    12177.29, 12211.41, 12158.93, 12155.27, 12118.04, 12140.4, 12074.39,
)  # fmt: skip


def fit(n: object, x: object) -> Scaling:
    found = fit_scaling(n, x)  # type: ignore[arg-type]
    assert found is not None
    return found


def test_exact_data_give_the_parameters_and_the_peak() -> None:
    found = fit(DOUBLING, (50, 96.99, 182.48, 323.10, 509.55, 659.52, 652.26, 494.67))
    assert (found.lambda_, found.sigma, found.kappa) == pytest.approx((50, 0.03, 0.0005), rel=1e-3)
    assert found.peak == pytest.approx(44.05, abs=0.01)
    assert found.peak_throughput == pytest.approx(679.85, abs=0.01)
    assert found.model == "usl"
    assert "falls by" in found.words


def test_amdahl_has_a_ceiling_and_no_maximum() -> None:
    found = fit(DOUBLING, (50, 95.24, 173.91, 296.30, 457.14, 627.45, 771.08, 870.75))
    assert found.peak is None
    assert found.ceiling == pytest.approx(1000, rel=1e-4)
    assert found.kappa == pytest.approx(0, abs=1e-7)
    assert "no maximum" in found.words


def test_reference_measurements() -> None:
    found = fit(range(1, 33), REFERENCE)
    assert found.lambda_ == pytest.approx(995.649, rel=1e-5)
    assert found.sigma == pytest.approx(0.0267159, rel=1e-5)
    assert found.kappa == pytest.approx(7.69094e-4, rel=1e-5)
    assert found.peak == pytest.approx(35.57, abs=0.01)


def test_a_hard_cap_is_not_taken_for_coherency() -> None:
    found = fit(DOUBLING, (50, 99.01, 194.17, 373.83, 695.65, 1221.37, 1500, 1500))
    assert found.model == "capped"
    assert (found.kappa, found.peak) == (0, None)
    assert found.ceiling == pytest.approx(1500)
    assert found.knee == pytest.approx(42.43, abs=0.01)
    assert "coherency" not in found.words


def test_the_knee_of_a_pure_cap_is_response_time_times_ceiling() -> None:
    found = fit((1, 5, 10, 20, 30, 50), (2.0, 10.0, 20.0, 30.0, 30.0, 30.0))
    assert found.knee == pytest.approx(30.0 / 2.0)


def test_a_straight_line_has_no_limit_in_range() -> None:
    found = fit(DOUBLING, [50 * n for n in DOUBLING])
    assert (found.model, found.peak, found.ceiling) == ("linear", None, None)


def test_coherency_is_not_named_when_no_fall_was_measured() -> None:
    n = np.array([1, 2, 4, 8, 16, 32], dtype=float)
    found = fit(n, usl(n, 50, 0.03, 0.0005))
    assert found.peak == pytest.approx(44.05, abs=0.01)
    assert "coherency" not in found.words


def test_no_guess_beyond_twice_the_tested_range() -> None:
    found = fit(DOUBLING, usl(np.array(DOUBLING, dtype=float), 50, 0.03, 0.0005))
    assert found.throughput(256) is not None
    assert found.throughput(257) is None
    assert found.throughput(16) == pytest.approx(509.55, abs=0.01)


@pytest.mark.parametrize("levels", [(), (1,), (1, 2, 4, 8)])
def test_refuses_under_five_levels(levels: tuple[int, ...]) -> None:
    assert fit_scaling(levels, [float(n) for n in levels]) is None


def test_several_measurements_of_a_level_are_one() -> None:
    assert fit_scaling((1, 1, 2, 2, 4, 4), (1, 1, 2, 2, 4, 4)) is None
    once = fit(DOUBLING, REFERENCE[:8])
    twice = fit((*DOUBLING, *DOUBLING), (*REFERENCE[:8], *REFERENCE[:8]))
    assert twice.lambda_ == pytest.approx(once.lambda_)


def test_a_level_without_throughput_is_left_out() -> None:
    n = np.array(DOUBLING, dtype=float)
    x = usl(n, 50, 0.03, 0.0005)
    x[3] = 0.0
    assert fit(n, x).sigma == pytest.approx(0.03, rel=1e-3)


@settings(max_examples=40, deadline=None)
@given(lambda_=st.floats(0.01, 1e5), sigma=st.floats(0.005, 0.5), kappa=st.floats(1e-4, 0.02))
def test_recovers_any_exact_curve(lambda_: float, sigma: float, kappa: float) -> None:
    n = np.array(DOUBLING, dtype=float)
    found = fit(n, usl(n, lambda_, sigma, kappa))
    assert found.lambda_ == pytest.approx(lambda_, rel=1e-3)
    assert found.sigma == pytest.approx(sigma, rel=0.02, abs=1e-3)
    assert found.kappa == pytest.approx(kappa, rel=0.02, abs=1e-5)
