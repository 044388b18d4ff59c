"""What a plan will cost before it is launched: stages, time, and users at once. Pure arithmetic over the plan."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import cast

import msgspec

from campaigns.models.plan import RunPlan
from campaigns.services.inputs import CampaignInput
from campaigns.services.sequence import known_stages

# Refinement stops between neighbours, or within 5% (see the definition of the load line).
NEIGHBOURS_SHARE = 0.05


@dataclass(frozen=True, slots=True)
class Estimate:
    """`stages`: those that run whatever happens, both baselines among them. Low: every queue drains at once and
    nothing needs refining. High: every drain takes its limit and refinement its budget."""

    stages: int
    refine_stages_max: int
    duration_s_low: float
    duration_s_high: float
    concurrency_max: int

    @property
    def text(self) -> str:
        low, high = duration_words(self.duration_s_low), duration_words(self.duration_s_high)
        time = low if low == high else f"{low} to {high}"
        refine = f" and up to {self.refine_stages_max} to refine" if self.refine_stages_max else ""
        return f"{self.stages} stages{refine}, {time}; up to {self.concurrency_max} requests at once"


def estimate(plan: RunPlan | CampaignInput) -> Estimate:
    """`plan` has been checked."""
    if plan.baseline_s is None:
        plan = msgspec.structs.replace(plan, baseline_s=plan.stage_s)
    # A checked input has every field of a plan that the order of stages depends on.
    known = known_stages(cast(RunPlan, plan))
    low_s = sum(stage.warmup_s + stage.measure_s for stage in known)
    refine = _refine_stages_max(plan) if plan.refine.enabled else 0
    refine_s = min(plan.refine.budget_s, refine * (plan.warmup_s + plan.stage_s + plan.drain_s))
    return Estimate(
        stages=len(known),
        refine_stages_max=refine,
        duration_s_low=low_s,
        duration_s_high=low_s + len(known) * plan.drain_s + refine_s,
        concurrency_max=plan.stages[-1],
    )


def duration_words(seconds: float) -> str:
    """A duration as people say it: "0.5 s", "45 s", "12 min", "2 h 05 min"."""
    if seconds < 9.95:
        return f"{seconds:.2g} s"
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02d} min"


def _refine_stages_max(plan: RunPlan | CampaignInput) -> int:
    """Bisections of the widest gap of the ladder, as many of them as begin within the budget."""
    edges = [plan.stages[0], *plan.stages]
    widest = max(bisections(low, high) for low, high in pairwise(edges))
    return min(widest, math.ceil(plan.refine.budget_s / (plan.warmup_s + plan.stage_s)))


def bisections(low: int, high: int) -> int:
    count = 0
    while high - low > max(1.0, NEIGHBOURS_SHARE * high):
        low = (low + high) // 2
        count += 1
    return count
