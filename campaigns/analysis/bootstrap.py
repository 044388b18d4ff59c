"""A statistic of a series of latencies with its bootstrap replicates. Knows one series; knows nothing of requests.

The bootstrap of an order statistic has a closed form: the k-th of n values drawn with replacement is the value at rank
ceil(n U), where U is the k-th of n uniform numbers, so U ~ Beta(k, n - k + 1). Drawing U costs one number a resample
instead of n. With p the share, k = p (n - 1) + 1 as in numpy's linear interpolation, and ranks are interpolated too.

Requests that ran together are alike, so n values tell less than n: n is divided by the variance inflation of the series
in order of sending (batch means; 1 for independent values).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from campaigns.analysis.latency import interpolate, quantiles

Floats = NDArray[np.float64]

BATCHES = 20
MIN_PER_BATCH = 2
# Resampling row by row costs resamples * n; above this many values the mean's distribution is normal for all purposes.
MEAN_DIRECT_MAX = 1000


@dataclass(frozen=True, slots=True)
class Resampled:
    """The statistic and what it was in each resample."""

    estimate: float
    replicates: Floats


def resample_quantile(series: Floats, share: float, rng: np.random.Generator, resamples: int) -> Resampled:
    """The quantile at `share` of `series` (in order of sending, no NaN, +inf allowed, not empty)."""
    ascending = np.sort(series)
    estimate = float(quantiles(ascending, np.array([share]))[0])
    n = _effective_size(series <= estimate)
    ranks = rng.beta(share * (n - 1) + 1, (1 - share) * (n - 1) + 1, resamples)
    # Rank ceil(n U) is place n U - 1/2 on average, counted from 0.
    return Resampled(estimate, interpolate(ascending, ranks * series.size - 0.5))


def resample_mean(series: Floats, rng: np.random.Generator, resamples: int) -> Resampled:
    """The mean of `series`; +inf when it holds a timeout."""
    estimate = float(series.mean())
    if np.isinf(estimate):
        return Resampled(estimate, np.full(resamples, np.inf))
    inflation = series.size / _effective_size(series)
    if series.size <= MEAN_DIRECT_MAX:
        means = series[rng.integers(0, series.size, (resamples, series.size))].mean(axis=1)
    else:
        means = rng.normal(estimate, float(series.std()) / np.sqrt(series.size), resamples)
    # Spread by the inflation but never below the smallest value: a latency stays positive.
    return Resampled(estimate, np.maximum(estimate + (means - estimate) * np.sqrt(inflation), series.min()))


def interval_of(replicates: Floats, estimate: float) -> tuple[float, float]:
    """The central 95% of `replicates`, widened where needed to hold `estimate`."""
    low, high = quantiles(np.sort(replicates), np.array([0.025, 0.975]))
    return min(float(low), estimate), max(float(high), estimate)


def _effective_size(series: Floats | NDArray[np.bool_]) -> float:
    values = series.astype(np.float64)
    variance = float(values.var())
    if values.size < BATCHES * MIN_PER_BATCH or variance == 0:
        return float(values.size)
    means = np.array([batch.mean() for batch in np.array_split(values, BATCHES)])
    inflation = float(means.var(ddof=1)) * (values.size / BATCHES) / variance
    return values.size / max(1.0, inflation)
