"""The analysis as plain JSON values in the shape of the API's `results`: None where there is no finite number."""

from __future__ import annotations

from typing import Any

from campaigns.analysis.load_line import MaxConcurrency
from campaigns.analysis.scaling import Scaling
from campaigns.analysis.summary import RunAnalysis, StageAnalysis
from campaigns.analysis.validity import Check


def results_dict(analysis: RunAnalysis) -> dict[str, Any]:
    """`{verdict, max_concurrency, per_criterion, confidence, doubts, notes, baseline, stages, scaling}`; the caller adds
    `run` and `findings`, and merges each stage's summary of the load generator into `stages` (same order)."""
    raise NotImplementedError


def stage_dict(stage: StageAnalysis) -> dict[str, Any]:
    """`{concurrency, kind, valid, invalid_reasons, warnings, checks, within, degradation}`."""
    raise NotImplementedError


def max_concurrency_dict(limit: MaxConcurrency) -> dict[str, Any]:
    raise NotImplementedError


def check_dict(check: Check) -> dict[str, Any]:
    raise NotImplementedError


def scaling_dict(scaling: Scaling | None) -> dict[str, Any] | None:
    raise NotImplementedError
