"""How much worse a stage is than the baseline, within each traffic class, with a bootstrap interval.

Knows two request tables and a criterion; knows neither the ladder nor which stages are valid.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from campaigns.analysis.criteria import Criterion
from campaigns.analysis.requests import RequestTable

RESAMPLES = 2000


@dataclass(frozen=True, slots=True)
class Degradation:
    """`pct` is 100 * (stat(stage) / stat(baseline) - 1), negative when faster, +inf when the stage's statistic falls
    among timeouts; `low` and `high` are its 95% interval. `left_out` names classes without data on one side: the
    weights of the others were scaled up.
    """

    pct: float
    low: float
    high: float
    per_class: Mapping[str, float]
    left_out: tuple[str, ...] = ()


def degradation(
    stage: RequestTable,
    baseline: RequestTable,
    criterion: Criterion,
    weights: Mapping[str, float],
    seed: int,
    resamples: int = RESAMPLES,
) -> Degradation | None:
    """The mix-weighted geometric mean over classes of stat(stage) / stat(baseline), minus 1, over the measured rows.
    None when no class has data on both sides."""
    raise NotImplementedError
