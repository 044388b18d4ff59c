"""How far a run is, from what the database holds: its plan, its stages, the newest progress line. Decides nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.utils import timezone

from campaigns.models import Run, RunState, Stage, StageKind, StageState
from campaigns.models.plan import RunPlan
from campaigns.services.estimate import bisections
from campaigns.services.outcomes import Outcomes
from campaigns.services.sequence import PlannedStage, WholeStage, missing_stages
from campaigns.services.waiting import why_waiting


@dataclass(frozen=True, slots=True)
class Progress:
    """Stage `stage` (from 1) of about `stages`: what refinement will take is a guess until it is over. `phase`: queued,
    preflight, warmup, measure, drain, between, analysing, over. The last line's numbers are of the running stage only.
    `waiting`: why a queued run will not be started, in words. None: not known, or not yet."""

    phase: str
    stage: int | None
    stages: int | None
    kind: str | None
    concurrency: int | None
    elapsed_s: float | None
    eta_s: float | None
    stage_elapsed_s: float | None
    stage_s: float | None
    in_flight: int | None
    output_tokens_per_s: float | None
    requests_ok: int | None
    requests_failed: int | None
    waiting: str | None


def progress_of(run: Run) -> Progress:
    plan = run.frozen_plan
    stages = list(run.stages.order_by("index"))
    whole = [stage for stage in stages if stage.state == StageState.DONE]
    running = next((stage for stage in stages if stage.state == StageState.RUNNING), None)
    left = _left(plan, whole, running)
    line = _newest_line(running)
    outcomes = Outcomes.of_counts(line.get("by_outcome", {}))
    end = run.ended_at or timezone.now()
    stage_elapsed_s = (end - running.started_at).total_seconds() if running else None
    return Progress(
        phase=_phase(run, stages, line),
        stage=len(whole) + 1 if running else len(whole) or None,
        stages=len(whole) + (running is not None) + len(left),
        kind=running.kind if running else None,
        concurrency=running.concurrency if running else None,
        elapsed_s=(end - run.started_at).total_seconds() if run.started_at else None,
        eta_s=_eta_s(run, whole, running, stage_elapsed_s, left),
        stage_elapsed_s=stage_elapsed_s,
        stage_s=running.warmup_s + running.measure_s if running else None,
        in_flight=line.get("in_flight"),
        output_tokens_per_s=line.get("output_tokens_per_s"),
        requests_ok=outcomes.ok if line else None,
        requests_failed=outcomes.failures if line else None,
        waiting=why_waiting(run),
    )


def _newest_line(running: Stage | None) -> dict[str, Any]:
    tick = running.ticks.order_by("-t_s").first() if running else None
    return tick.progress if tick else {}


def _phase(run: Run, stages: Sequence[Stage], line: dict[str, Any]) -> str:
    if run.is_over:
        return "over"
    if run.state != RunState.RUNNING:
        return str(run.state)
    if stages and stages[-1].state == StageState.RUNNING:
        return str(line.get("phase", "warmup"))
    return "between" if stages else "preflight"


def _left(plan: RunPlan, whole: Sequence[Stage], running: Stage | None) -> list[PlannedStage]:
    """What is still to begin, as far as it can be told."""
    seen = [*whole, running] if running else list(whole)
    kinds = {stage.kind for stage in seen}
    if StageKind.CLOSING in kinds:
        return []
    begun = [WholeStage(StageKind(stage.kind), stage.concurrency, _took_s(stage)) for stage in seen]
    *ladder, closing = missing_stages(plan, begun)
    # Refinement begins when the ladder is over, be it before its last stage.
    return [*([] if StageKind.REFINE in kinds else ladder), *_refinement_left(plan, seen), closing]


def _refinement_left(plan: RunPlan, seen: Sequence[Stage]) -> list[PlannedStage]:
    """Bisections of the gap between the last stage that passed and the first that did not; none while all pass."""
    if not plan.refine.enabled:
        return []
    verdicts = {stage.concurrency: (stage.result or {}).get("within") for stage in seen}
    beyond = min((users for users, within in verdicts.items() if within == "beyond"), default=None)
    if beyond is None:
        return []
    passed = max((users for users, within in verdicts.items() if within == "within" and users < beyond), default=0)
    spent_s = sum(_took_s(stage) for stage in seen if stage.kind == StageKind.REFINE)
    afford = max(0, int((plan.refine.budget_s - spent_s) / (plan.warmup_s + plan.stage_s)))
    count = min(bisections(passed, beyond), afford)
    return [PlannedStage(StageKind.REFINE, beyond, plan.warmup_s, plan.stage_s)] * count


def _eta_s(
    run: Run, whole: Sequence[Stage], running: Stage | None, elapsed_s: float | None, left: Sequence[PlannedStage]
) -> float | None:
    """None before the first whole stage: how long the server takes to drain is not known yet."""
    if not whole or run.state != RunState.RUNNING:
        return None
    # Starting the generator, draining and storing: as long as it took so far.
    extra_s = sum(_took_s(stage) - stage.warmup_s - stage.measure_s for stage in whole) / len(whole)
    rest_s = sum(stage.warmup_s + stage.measure_s + extra_s for stage in left)
    if running is not None and elapsed_s is not None:
        rest_s += max(0.0, running.warmup_s + running.measure_s + extra_s - elapsed_s)
    return max(0.0, rest_s)


def _took_s(stage: Stage) -> float:
    return ((stage.ended_at or timezone.now()) - stage.started_at).total_seconds()
