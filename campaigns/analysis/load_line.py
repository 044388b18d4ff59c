"""The load line of a run: the highest concurrency that keeps every criterion, its interval, and what limits it.

Knows the measured stages and the criteria; knows nothing of how they were run or stored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from campaigns.analysis.criteria import DEFAULT_CRITERIA, FAILURE_CRITERION, Criterion, Interval
from campaigns.analysis.degradation import RESAMPLES, Degradation, degradation
from campaigns.analysis.requests import RequestTable
from campaigns.analysis.validity import Check, StageKind

__all__ = [
    "DEFAULT_CRITERIA",
    "FAILURE_CRITERION",
    "Assessment",
    "Criterion",
    "Degradation",
    "Drift",
    "Interval",
    "Level",
    "LimitedBy",
    "LoadLine",
    "MaxConcurrency",
    "MeasuredStage",
    "degradation",
    "find_load_line",
]

Within = Literal["within", "beyond", "unsure"]
Verdict = Literal["ok", "drifted", "baseline_unstable", "no_valid_stage"]


@dataclass(frozen=True)
class MeasuredStage:
    """One measurement: its requests and what `check_stage` said of them."""

    concurrency: int
    kind: StageKind
    table: RequestTable
    checks: tuple[Check, ...] = ()


@dataclass(frozen=True, slots=True)
class Assessment:
    """One criterion at one level. `value` is the statistic over all classes (ms, or percent of failures), None without
    data; `degradation` is None for an absolute limit. `within` is None when there is nothing to judge."""

    criterion: Criterion
    within: Within | None
    value: float | None
    interval: Interval | None
    degradation: Degradation | None


@dataclass(frozen=True, slots=True)
class Level:
    """One concurrency with all its valid measurements pooled. `valid` is False for one that takes part only as evidence
    of "beyond" (see `Check.understates`) or not at all (`within` is None)."""

    concurrency: int
    valid: bool
    within: Within | None
    # What the load line does with it: an unsure level that was measured often enough is decided by its estimate.
    passes: bool | None
    measurements: int
    assessments: tuple[Assessment, ...]


@dataclass(frozen=True, slots=True)
class LimitedBy:
    """The binding criterion; `class_name` when one class breaks the limit while another keeps it."""

    metric: str
    stat: str
    class_name: str | None = None


@dataclass(frozen=True, slots=True)
class MaxConcurrency:
    """`value` users, between `low` and `high` (95%; `high` is None when nothing failed). `relation` "=": passed and
    failed are known; ">=": nothing tested failed; "<": the first stage fails; None: no answer. `estimate` is where the
    monotone curve crosses the limit, for drawing. `text` says it all in one line."""

    value: int | None
    low: int | None
    high: int | None
    relation: Literal["=", ">=", "<"] | None
    passed: int | None
    failed: int | None
    limited_by: LimitedBy | None
    text: str
    estimate: float | None = None


@dataclass(frozen=True, slots=True)
class Drift:
    """Closing against opening baseline, medians within class; `pct` is the largest change by size."""

    pct: float
    per_metric: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class LoadLine:
    """`levels` ascend. `notes` are sentences for the reader; `confidence` is "low" for the reasons in `doubts`."""

    verdict: Verdict
    max_concurrency: MaxConcurrency
    per_criterion: tuple[tuple[Criterion, MaxConcurrency], ...]
    levels: tuple[Level, ...]
    drift: Drift | None
    confidence: Literal["normal", "low"]
    doubts: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def find_load_line(
    stages: Sequence[MeasuredStage],
    criteria: Sequence[Criterion],
    weights: Mapping[str, float],
    seed: int,
    *,
    baseline_is_rung: bool = True,
    resamples: int = RESAMPLES,
) -> LoadLine:
    """Judge every level and state the load line. Works on a run in progress too (no closing baseline yet).

    `baseline_is_rung`: the baseline's concurrency belongs to the ladder, where it passes by definition, so that the
    answer can be "1". Without it a ladder whose first stage fails gives "< first stage".
    """
    raise NotImplementedError
