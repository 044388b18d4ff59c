"""Percentiles of a set of latencies: one method (linear interpolation, numpy's default) for every page and export.

Knows nothing of stages. +inf stands for "longer than the limit" (a timeout) and takes its place at the upper end.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Percentiles:
    """Summary of `count` values, in their unit. A field is +inf when it falls among the `censored` (timed out) ones."""

    mean: float
    p50: float
    p90: float
    p95: float
    p99: float
    min: float
    max: float
    count: int
    censored: int = 0


@dataclass(frozen=True, slots=True)
class CensoredValue:
    """A percentile; with `censored`, it lies among the timeouts and `value` is the limit: read "> value"."""

    value: float
    censored: bool


def summarize(values: ArrayLike) -> Percentiles | None:
    """Percentiles of `values` without NaN; None when nothing is left."""
    known = known_sorted(values)
    if known.size == 0:
        return None
    p50, p90, p95, p99 = quantiles(known, np.array([0.5, 0.9, 0.95, 0.99]))
    return Percentiles(
        mean=float(known.mean()),
        p50=float(p50),
        p90=float(p90),
        p95=float(p95),
        p99=float(p99),
        min=float(known[0]),
        max=float(known[-1]),
        count=int(known.size),
        censored=int(np.count_nonzero(np.isinf(known))),
    )


def percentile(values: ArrayLike, q: float, limit: float | None = None) -> CensoredValue | None:
    """The q-th percentile (0 to 100) of `values` without NaN. One that falls among timeouts is `limit` with `censored`
    (+inf without a limit). None when there is no value.
    """
    known = known_sorted(values)
    if known.size == 0:
        return None
    value = float(quantiles(known, np.array([q / 100.0]))[0])
    if np.isinf(value):
        return CensoredValue(value if limit is None else limit, censored=True)
    return CensoredValue(value, censored=False)


def known_sorted(values: ArrayLike) -> Floats:
    """`values` without NaN, ascending."""
    array = np.asarray(values, dtype=np.float64).ravel()
    return np.sort(array[~np.isnan(array)])


def quantiles(ascending: Floats, shares: Floats) -> Floats:
    """Quantiles at `shares` (0 to 1) of sorted values that may end in +inf (between two of which numpy says NaN)."""
    return interpolate(ascending, shares * (ascending.size - 1))


def interpolate(ascending: Floats, positions: Floats) -> Floats:
    """Values at fractional `positions` (0 is the first value), clipped to the ends."""
    places = np.clip(positions, 0, ascending.size - 1)
    below = np.floor(places).astype(np.int64)
    above = np.minimum(below + 1, ascending.size - 1)
    fraction = places - below
    lower, upper = ascending[below], ascending[above]
    finite_step = np.where(np.isinf(upper), 0.0, upper) - np.where(np.isinf(upper), 0.0, lower)
    between = lower + fraction * finite_step
    return np.where(np.isinf(upper) & (fraction > 0), np.inf, between)
