import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from campaigns.analysis.latency import percentile, quantiles, summarize

TEN = [278, 300, 320, 350, 400, 900, 1040, 1100, 1290, 1340]
EIGHT = [7780.8, 9000, 15000, 22000, 24000, 30000, 35000, 39701.4]


@pytest.mark.parametrize(
    ("sample", "p50", "p95", "p99"),
    [
        ([100], 100, 100, 100),
        ([100, 200], 150, 195, 199),
        (TEN, 650, 1317.5, 1335.5),
        (EIGHT, 23000, 38055.91, 39372.30),
    ],
)
def test_percentiles_of_tiny_samples(sample: list[float], p50: float, p95: float, p99: float) -> None:
    found = summarize(sample)
    assert found is not None
    assert (found.p50, found.p95, found.p99) == pytest.approx((p50, p95, p99), abs=0.006)
    assert (found.min, found.max, found.count) == (min(sample), max(sample), len(sample))


@pytest.mark.parametrize("sample", [[], [np.nan], [np.nan, np.nan]])
def test_no_data_is_none(sample: list[float]) -> None:
    assert summarize(sample) is None
    assert percentile(sample, 50) is None


def test_missing_values_are_left_out() -> None:
    found = summarize([np.nan, 100, 200])
    assert found is not None
    assert (found.count, found.p50) == (2, 150)


def test_a_percentile_among_timeouts_is_the_limit_and_says_so() -> None:
    values = [100.0] * 98 + [np.inf] * 2
    p50, p99 = percentile(values, 50, limit=600_000), percentile(values, 99, limit=600_000)
    assert p50 is not None and p99 is not None
    assert (p50.value, p50.censored) == (100, False)
    assert (p99.value, p99.censored) == (600_000, True)


def test_timeouts_are_counted_and_make_the_upper_end_infinite() -> None:
    found = summarize([100.0, np.inf, np.inf])
    assert found is not None
    assert (found.min, found.censored, found.count) == (100, 2, 3)
    assert np.isposinf([found.p50, found.max, found.mean]).all()


@given(st.lists(st.floats(0, 1e9), min_size=1, max_size=60), st.floats(0, 1))
def test_quantiles_are_numpys_and_inside_the_sample(values: list[float], share: float) -> None:
    ascending = np.sort(values)
    found = float(quantiles(ascending, np.array([share]))[0])
    assert found == pytest.approx(float(np.quantile(ascending, share)), rel=1e-9, abs=1e-6)
    assert ascending[0] <= found <= ascending[-1]
