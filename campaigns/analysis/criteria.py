"""What may change at most under load: one criterion, its limit and its name in words. Knows no data."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

FAILURE_METRIC = "failure_pct"
_LABELS = {
    "ttft_ms": "TTFT",
    "tpot_ms": "TPOT",
    "itl_ms": "ITL",
    "e2e_ms": "E2E latency",
    FAILURE_METRIC: "failure share",
}
_PERCENTILE = re.compile(r"p(\d{1,2}(?:\.\d+)?)")


@dataclass(frozen=True, slots=True)
class Interval:
    """A 95% interval, both ends included."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Criterion:
    """`stat` ("mean" or "p50", "p99", "p99.9" …) of `metric` gets at most `max_degradation_pct` worse than the
    baseline, or is at most `max_value` (ms; for `failure_pct`: stays below this many percent, `stat` is ignored).
    Exactly one of the two limits is given.

    Raises ValueError for a metric, statistic or limit that cannot be judged.
    """

    metric: str
    stat: str = "p50"
    max_degradation_pct: float | None = None
    max_value: float | None = None

    def __post_init__(self) -> None:
        if self.metric not in _LABELS:
            raise ValueError(f"unknown metric {self.metric!r}; known are {', '.join(_LABELS)}")
        if (self.max_degradation_pct is None) == (self.max_value is None):
            raise ValueError(f"criterion on {self.metric}: give max_degradation_pct or max_value, one of them")
        if self.metric == FAILURE_METRIC:
            if self.max_value is None or not 0 <= self.max_value <= 100:
                raise ValueError("criterion on failure_pct: give max_value, 0 to 100 percent")
            return
        if self.stat != "mean" and not _PERCENTILE.fullmatch(self.stat):
            raise ValueError(f"unknown statistic {self.stat!r}; give mean or a percentile such as p50 or p99")
        if self.max_degradation_pct is not None and not 0 <= self.max_degradation_pct < math.inf:
            raise ValueError(f"criterion on {self.metric}: max_degradation_pct must be 0 or more")
        if self.max_value is not None and not 0 < self.max_value < math.inf:
            raise ValueError(f"criterion on {self.metric}: max_value must be above 0")

    @property
    def quantile(self) -> float | None:
        """The percentile as a share (0 to 1); None for the mean."""
        match = _PERCENTILE.fullmatch(self.stat)
        return float(match[1]) / 100 if match else None

    @property
    def label(self) -> str:
        """In words: "TTFT p50", "failure share"."""
        return _LABELS[self.metric] if self.metric == FAILURE_METRIC else f"{_LABELS[self.metric]} {self.stat}"

    @property
    def limit_text(self) -> str:
        if self.max_value is None:
            return f"{self.max_degradation_pct:g}% over the baseline"
        return f"{self.max_value:g}{'%' if self.metric == FAILURE_METRIC else ' ms'}"


DEFAULT_CRITERIA = (
    Criterion("ttft_ms", "p50", max_degradation_pct=50),
    Criterion("tpot_ms", "p50", max_degradation_pct=50),
)
# Always judged unless the plan has a failure criterion of its own: failed requests have no latency, so without it a
# server could pass by refusing work.
FAILURE_CRITERION = Criterion(FAILURE_METRIC, "mean", max_value=1)
