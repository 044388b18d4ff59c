"""One criterion at one concurrency: within, beyond, or unsure. Knows the level's requests and the baseline's, not the
other levels.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from campaigns.analysis.bootstrap import interval_of
from campaigns.analysis.criteria import FAILURE_METRIC, Criterion, Interval
from campaigns.analysis.degradation import Degradation, degradation, statistic
from campaigns.analysis.requests import RequestTable

Floats = NDArray[np.float64]
Within = Literal["within", "beyond", "unsure"]

# A bootstrap sees the noise inside a measurement, not between measurements: no decision on less than 1% of distance,
# however narrow the interval of a very regular server is. At the limit to within 1% the answer is "unsure".
FLOOR_LOG = 0.01


@dataclass(frozen=True, slots=True)
class Assessment:
    """One criterion at one level. `value` is the statistic over all classes (ms, or percent of failures), None without
    data; `interval` is its 95% interval where the limit is absolute; `degradation` is None there. `within` is None when
    there is nothing to judge. `excess` is log(measured / limit), 0 at the limit, with its bootstrap `excesses`.
    """

    criterion: Criterion
    within: Within | None
    value: float | None
    interval: Interval | None
    degradation: Degradation | None
    excess: float | None = None
    excesses: Floats | None = field(default=None, repr=False, compare=False)

    @property
    def worst_class(self) -> str | None:
        """The class that breaks the limit most, when another class keeps it."""
        limit, found = self.criterion.max_degradation_pct, self.degradation
        if limit is None or found is None or len(found.per_class) < 2:
            return None
        if not min(found.per_class.values()) <= limit < max(found.per_class.values()):
            return None
        return max(found.per_class, key=lambda name: found.per_class[name])


def assess(
    stage: RequestTable,
    baseline: RequestTable,
    criterion: Criterion,
    weights: Mapping[str, float],
    seed: int,
    salt: int,
    resamples: int,
) -> Assessment:
    """Judge `stage` by one criterion."""
    if criterion.metric == FAILURE_METRIC:
        return _failures(stage, criterion)
    overall = statistic(stage, criterion, None, (seed, salt, zlib.crc32(criterion.label.encode())), resamples)
    value = None if overall is None else overall.estimate
    if criterion.max_degradation_pct is not None:
        found = degradation(stage, baseline, criterion, weights, seed, resamples, salt=salt)
        if found is None:
            return Assessment(criterion, None, value, None, None)
        limit = float(np.log1p(criterion.max_degradation_pct / 100))
        excess, excesses = float(np.log1p(found.pct / 100)) - limit, found.log_ratios - limit
        return Assessment(criterion, _decide(excess, excesses), value, None, found, excess, excesses)
    if overall is None or criterion.max_value is None or overall.estimate <= 0:
        return Assessment(criterion, None, value, None, None)
    with np.errstate(divide="ignore"):
        excesses = np.log(overall.replicates) - np.log(criterion.max_value)
    excess = float(np.log(overall.estimate) - np.log(criterion.max_value))
    interval = Interval(*interval_of(overall.replicates, overall.estimate))
    return Assessment(criterion, _decide(excess, excesses), value, interval, None, excess, excesses)


def joint(assessments: Sequence[Assessment]) -> Within | None:
    """Beyond if any criterion is, within if all that could be judged are. None when no latency could be judged and
    nothing is beyond: too few failures alone prove nothing."""
    judged = [one.within for one in assessments if one.within is not None]
    if "beyond" in judged:
        return "beyond"
    latencies = [one for one in assessments if one.criterion.metric != FAILURE_METRIC]
    if not judged or (latencies and all(one.within is None for one in latencies)):
        return None
    return "unsure" if "unsure" in judged else "within"


def _decide(excess: float, excesses: Floats) -> Within:
    low, high = interval_of(excesses, excess)
    low, high = min(low, excess - FLOOR_LOG), max(high, excess + FLOOR_LOG)
    if high <= 0:
        return "within"
    return "beyond" if low > 0 else "unsure"


def _failures(stage: RequestTable, criterion: Criterion) -> Assessment:
    """Judged by the share itself, not its interval: no failure among 50 requests cannot exclude 1%, and would leave
    every short stage unsure. The interval (Wilson) is there to be read."""
    cohort = stage.cohort()
    share = cohort.failure_pct
    if share is None or criterion.max_value is None:
        return Assessment(criterion, None, None, None, None)
    judged = len(cohort) - cohort.counts["cancelled"]
    failed = round(share / 100 * judged)
    wilson = stats.binomtest(failed, judged).proportion_ci(method="wilson")
    within: Within = "beyond" if share > 0 and share >= criterion.max_value else "within"
    return Assessment(criterion, within, share, Interval(100 * wilson.low, 100 * wilson.high), None)
