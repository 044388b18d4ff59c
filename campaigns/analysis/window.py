"""What happened inside a stage's measured window: requests in flight, completions, and the trend across it.

Knows one request table and the window's ends; judges nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from campaigns.analysis.requests import RequestTable

Floats = NDArray[np.float64]

NS_PER_S = 1e9
MAX_BLOCKS = 20
MIN_BLOCKS = 8
MIN_PER_BLOCK = 5


@dataclass(frozen=True, slots=True)
class Window:
    """The measured window, in nanoseconds from the stage's start."""

    start_ns: float
    end_ns: float

    @property
    def seconds(self) -> float:
        return (self.end_ns - self.start_ns) / NS_PER_S


@dataclass(frozen=True, slots=True)
class Trend:
    """Mann-Kendall's two-sided `p`, and the fitted change from the window's first to its last block, in percent."""

    p: float
    change_pct: float


def window_of(table: RequestTable, window_s: float, start_s: float | None = None) -> Window | None:
    """The window of `window_s` seconds from `start_s`, or else from the first measured request; None without either."""
    if start_s is None:
        sent_ns = table.start_ns[table.measured]
        sent_ns = sent_ns[np.isfinite(sent_ns)]
        if sent_ns.size == 0:
            return None
        start_s = float(sent_ns.min()) / NS_PER_S
    return Window(start_s * NS_PER_S, (start_s + window_s) * NS_PER_S)


def mean_in_flight(table: RequestTable, window: Window) -> float:
    """Time average of requests in flight from the rows themselves: the time each spent inside the window, over its
    length. A request without an end was in flight to the window's end."""
    end_ns = np.where(np.isnan(table.t_end_ns), window.end_ns, table.t_end_ns)
    overlap_ns = np.minimum(end_ns, window.end_ns) - np.maximum(table.t_sent_ns, window.start_ns)
    return float(np.nansum(np.maximum(overlap_ns, 0.0)) / (window.end_ns - window.start_ns))


def completions_per_s(table: RequestTable, window: Window) -> float:
    """Answered requests that ended inside the window, a second."""
    inside = table.ok & (table.t_end_ns >= window.start_ns) & (table.t_end_ns < window.end_ns)
    return int(np.count_nonzero(inside)) / window.seconds


def mean_e2e_s(table: RequestTable) -> float | None:
    """Mean time in the system of the rows that held a slot, failed ones included; None without any."""
    spent_ns = table.t_end_ns - table.t_sent_ns
    spent_ns = spent_ns[np.isfinite(spent_ns)]
    return float(spent_ns.mean()) / NS_PER_S if spent_ns.size else None


def trend(cohort: RequestTable, metric: str, window_s: float) -> Trend | None:
    """Whether `metric` rises or falls across the window; None when the window is too short to tell.

    Values are divided by their class's median, so that the order of classes is no trend. Mann-Kendall assumes
    independent values, which requests that ran together are not: it is taken on medians of blocks, each at least
    `MIN_PER_BLOCK` requests and one mean request time long. The change is Theil-Sen's slope over the blocks.
    """
    values = _relative_to_class(cohort, cohort.latency(metric))
    known = np.isfinite(values)
    series = values[known][np.argsort(cohort.start_ns[known], kind="stable")]
    e2e_s = mean_e2e_s(cohort)
    if e2e_s is None:
        return None
    independent = int(window_s / e2e_s) if e2e_s > 0 else MAX_BLOCKS
    blocks = min(MAX_BLOCKS, series.size // MIN_PER_BLOCK, independent)
    if blocks < MIN_BLOCKS:
        return None
    medians = np.array([np.median(block) for block in np.array_split(series, blocks)])
    places = np.arange(blocks)
    if np.ptp(medians) == 0:
        return Trend(p=1.0, change_pct=0.0)
    slope = float(stats.theilslopes(medians, places).slope)
    return Trend(
        p=float(stats.kendalltau(places, medians).pvalue),
        change_pct=100.0 * slope * (blocks - 1) / float(np.median(medians)),
    )


def _relative_to_class(table: RequestTable, values: Floats) -> Floats:
    relative = np.full(values.shape, np.nan)
    for index in range(len(table.class_names)):
        rows = table.class_index == index
        known = values[rows & np.isfinite(values)]
        if known.size and np.median(known) > 0:
            relative[rows] = values[rows] / np.median(known)
    return relative
