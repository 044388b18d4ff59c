"""The frozen copy of everything that a run depends on, as types. No secrets: those stay with the target.

`Run.plan` holds `RunPlan` as JSON, so that a later edit of the target, the mix or the campaign changes no run.
"""

from __future__ import annotations

from typing import Any

import msgspec

DEFAULT_STAGES = (1, 5, 10, 20, 30, 50)


class CriterionPlan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """`stat` of `metric` may get at most `max_degradation_pct` worse than the baseline, or be at most `max_value`."""

    metric: str
    stat: str
    max_degradation_pct: float | None = None
    max_value: float | None = None

    def as_dict(self) -> dict[str, Any]:
        return dict(msgspec.to_builtins(self))


DEFAULT_CRITERIA = (
    CriterionPlan(metric="ttft_ms", stat="p50", max_degradation_pct=50),
    CriterionPlan(metric="tpot_ms", stat="p50", max_degradation_pct=50),
)


class TargetPlan(msgspec.Struct, frozen=True, kw_only=True):
    id: int
    name: str
    base_url: str
    model: str
    protocol: str
    verify_tls: bool
    has_api_key: bool
    header_names: list[str]
    gpu_count: int | None
    gpu_model: str
    metrics: list[dict[str, Any]]
    tags: list[str]


class MixPlan(msgspec.Struct, frozen=True, kw_only=True):
    id: int
    name: str
    classes: list[dict[str, Any]]
    shared_prefix_tokens: int

    @property
    def weights(self) -> dict[str, float]:
        """{class name: weight}."""
        return {str(one["name"]): float(one["weight"]) for one in self.classes}


class RefinePlan(msgspec.Struct, frozen=True, kw_only=True):
    enabled: bool
    budget_s: float


class AbortPlan(msgspec.Struct, frozen=True, kw_only=True):
    error_pct: float
    after_s: float


class RunPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a run depends on; `version` is Brimline's at launch."""

    version: str
    target: TargetPlan
    mix: MixPlan
    stages: list[int]
    stage_s: float
    warmup_s: float
    drain_s: float
    baseline_s: float
    timeout_s: float
    criteria: list[CriterionPlan]
    refine: RefinePlan
    repeats: int
    abort: AbortPlan
    load: str
    drivers: list[str]
    generation: dict[str, Any]
    seed: int

    def as_dict(self) -> dict[str, Any]:
        return dict(msgspec.to_builtins(self))

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> RunPlan:
        """Raises msgspec.ValidationError when `data` is not a plan."""
        return msgspec.convert(data, cls)
