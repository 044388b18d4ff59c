"""The analysis as plain JSON values in the shape of the API's `results`: None where there is no finite number."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from campaigns.analysis.criteria import Criterion, Interval
from campaigns.analysis.degradation import Degradation
from campaigns.analysis.latency import Percentiles
from campaigns.analysis.max_concurrency import LimitedBy, MaxConcurrency
from campaigns.analysis.scaling import Scaling
from campaigns.analysis.summary import RunAnalysis, StageAnalysis
from campaigns.analysis.validity import Check, invalid_checks, warnings


def results_dict(analysis: RunAnalysis) -> dict[str, Any]:
    """`{verdict, max_concurrency, per_criterion, confidence, doubts, notes, baseline, stages, scaling}`; the caller
    adds `run` and `findings`, and merges the load generator's summaries into `stages` (same order)."""
    line = analysis.line
    stages = [stage_dict(stage) for stage in analysis.stages]
    return {
        "verdict": line.verdict,
        "max_concurrency": max_concurrency_dict(line.max_concurrency),
        "per_criterion": [
            criterion_dict(criterion) | {"max_concurrency": max_concurrency_dict(limit)}
            for criterion, limit in line.per_criterion
        ],
        "confidence": line.confidence,
        "doubts": list(line.doubts),
        "notes": list(line.notes),
        "baseline": {
            "opening": next((stage for stage in stages if stage["kind"] == "baseline"), None),
            "closing": next((stage for stage in stages if stage["kind"] == "closing"), None),
            "drift_pct": None if line.drift is None else number(line.drift.pct),
            "drift": {} if line.drift is None else numbers(line.drift.per_metric),
        },
        "stages": stages,
        "scaling": scaling_dict(analysis.scaling),
    }


def stage_dict(stage: StageAnalysis) -> dict[str, Any]:
    """`{concurrency, kind, valid, invalid_reasons, warnings, checks, within, degradation}`; the stage's own figures are
    in the load generator's summary."""
    return {
        "concurrency": stage.stage.concurrency,
        "kind": stage.stage.kind,
        "valid": stage.valid,
        "invalid_reasons": [check.reason for check in invalid_checks(stage.checks)],
        "warnings": [check.reason for check in warnings(stage.checks)],
        "checks": [check_dict(check) for check in stage.checks],
        "within": stage.within,
        "degradation": {
            metric: {stat: degradation_dict(one) for stat, one in by_stat.items()}
            for metric, by_stat in stage.degradations.items()
        },
    }


def max_concurrency_dict(limit: MaxConcurrency) -> dict[str, Any]:
    return {
        "value": limit.value,
        "low": limit.low,
        "high": limit.high,
        "relation": limit.relation,
        "passed": limit.passed,
        "failed": limit.failed,
        "limited_by": _limited_by(limit.limited_by),
        "text": limit.text,
        "estimate": number(limit.estimate),
        "unsure": list(limit.unsure),
    }


def criterion_dict(criterion: Criterion) -> dict[str, Any]:
    return {
        "metric": criterion.metric,
        "stat": criterion.stat,
        "max_degradation_pct": criterion.max_degradation_pct,
        "max_value": criterion.max_value,
    }


def degradation_dict(found: Degradation) -> dict[str, Any]:
    return {
        "pct": number(found.pct),
        "low": number(found.low),
        "high": number(found.high),
        "per_class": numbers(found.per_class),
        "left_out": list(found.left_out),
    }


def check_dict(check: Check) -> dict[str, Any]:
    return {
        "name": check.name,
        "ok": check.ok,
        "severity": check.severity,
        "value": number(check.value),
        "limit": number(check.limit),
        "reason": check.reason,
        "remedy": check.remedy,
    }


def percentiles_dict(found: Percentiles | None) -> dict[str, Any] | None:
    """The load generator's shape; a percentile that falls among timeouts is None, and `censored` counts those."""
    if found is None:
        return None
    stats = {name: number(getattr(found, name)) for name in ("mean", "p50", "p90", "p95", "p99", "min", "max")}
    return {**stats, "count": found.count, "censored": found.censored}


def scaling_dict(scaling: Scaling | None) -> dict[str, Any] | None:
    if scaling is None:
        return None
    return {
        "lambda": number(scaling.lambda_),
        "sigma": number(scaling.sigma),
        "kappa": number(scaling.kappa),
        "peak": number(scaling.peak),
        "peak_throughput": number(scaling.peak_throughput),
        "r2": number(scaling.r2),
        "model": scaling.model,
        "ceiling": number(scaling.ceiling),
        "knee": number(scaling.knee),
        "intervals": {name: _interval(one) for name, one in scaling.intervals.items()},
        "residuals": [number(one) for one in scaling.residuals],
        "tested_max": number(scaling.tested_max),
        "words": scaling.words,
    }


def number(value: float | None) -> float | None:
    """A plain finite number, or None."""
    return float(value) if value is not None and math.isfinite(value) else None


def numbers(values: Mapping[str, float]) -> dict[str, float | None]:
    return {name: number(value) for name, value in values.items()}


def _interval(interval: Interval) -> dict[str, float | None]:
    return {"low": number(interval.low), "high": number(interval.high)}


def _limited_by(limited_by: LimitedBy | None) -> dict[str, str] | None:
    if limited_by is None:
        return None
    found = {"metric": limited_by.metric, "stat": limited_by.stat}
    return found if limited_by.class_name is None else {**found, "class": limited_by.class_name}
