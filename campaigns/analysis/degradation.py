"""How much worse a stage is than the baseline, within each traffic class, with a bootstrap interval.

Knows two request tables and a criterion; knows neither the ladder nor which stages are valid.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from campaigns.analysis.bootstrap import Resampled, interval_of, resample_mean, resample_quantile
from campaigns.analysis.criteria import Criterion
from campaigns.analysis.requests import RequestTable

Floats = NDArray[np.float64]

RESAMPLES = 2000
_BASELINE = 0
_STAGE = 1


@dataclass(frozen=True, slots=True)
class Degradation:
    """`pct` is 100 * (stat(stage) / stat(baseline) - 1), negative when faster, +inf when the stage's statistic falls
    among timeouts; `low` and `high` are its 95% interval. `left_out` names classes without data on one side: the
    weights of the others were scaled up. `log_ratios` are the bootstrap's values of log(1 + pct / 100).
    """

    pct: float
    low: float
    high: float
    per_class: Mapping[str, float]
    left_out: tuple[str, ...] = ()
    log_ratios: Floats = field(default_factory=lambda: np.zeros(0), repr=False, compare=False)


def degradation(
    stage: RequestTable,
    baseline: RequestTable,
    criterion: Criterion,
    weights: Mapping[str, float],
    seed: int,
    resamples: int = RESAMPLES,
    *,
    salt: int = 0,
) -> Degradation | None:
    """The mix-weighted geometric mean over classes of stat(stage) / stat(baseline), minus 1, over the measured rows.
    None when no class has data on both sides.

    `salt` makes stages of one run independent of each other while they share the baseline's resamples.
    """
    log_ratio, replicates, weight_sum = 0.0, np.zeros(resamples), 0.0
    per_class: dict[str, float] = {}
    left_out: list[str] = []
    for name in sorted(weights):
        if weights[name] <= 0:
            continue
        here = statistic(stage, criterion, name, _seeds(seed, _STAGE + salt, criterion, name), resamples)
        there = statistic(baseline, criterion, name, _seeds(seed, _BASELINE, criterion, name), resamples)
        if here is None or there is None or here.estimate <= 0 or not 0 < there.estimate < np.inf:
            left_out.append(name)
            continue
        ratio = np.log(here.estimate) - np.log(there.estimate)
        log_ratio += weights[name] * float(ratio)
        replicates += weights[name] * _log_ratios(here, there, float(ratio))
        weight_sum += weights[name]
        per_class[name] = _pct(float(ratio))
    if not per_class:
        return None
    log_ratio, replicates = log_ratio / weight_sum, replicates / weight_sum
    low, high = interval_of(replicates, log_ratio)
    return Degradation(_pct(log_ratio), _pct(low), _pct(high), per_class, tuple(left_out), replicates)


def statistic(
    table: RequestTable, criterion: Criterion, class_name: str | None, seeds: tuple[int, ...], resamples: int
) -> Resampled | None:
    """The criterion's statistic over the measured rows of one class (None: of all classes), timeouts as +inf; None
    without data."""
    cohort = table.cohort()
    series = _series(cohort if class_name is None else cohort.of_class(class_name), criterion.metric)
    if not series.size:
        return None
    rng = np.random.default_rng(seeds)
    if criterion.quantile is None:
        return resample_mean(series, rng, resamples)
    return resample_quantile(series, criterion.quantile, rng, resamples)


def _series(table: RequestTable, metric: str) -> Floats:
    """Known values in order of sending, whatever the order of the rows."""
    if metric == "itl_ms":
        gaps, rows = table.gaps()
        return gaps[np.argsort(table.start_ns[rows], kind="stable")]
    values = table.latency(metric)
    known = ~np.isnan(values)
    values, sent_ns = values[known], table.start_ns[known]
    return values[np.lexsort((values, sent_ns))]


def _log_ratios(here: Resampled, there: Resampled, estimate: float) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.log(here.replicates) - np.log(there.replicates)
    return np.where(np.isnan(ratios), estimate, ratios)


def _pct(log_ratio: float) -> float:
    return 100.0 * float(np.expm1(log_ratio))


def _seeds(seed: int, side: int, criterion: Criterion, class_name: str) -> tuple[int, ...]:
    return (seed, side, zlib.crc32(f"{class_name}/{criterion.metric}/{criterion.stat}".encode()))
