"""The order of a run's stages, as pure functions of its plan and of the stages that are whole: so a run that was
interrupted goes on where it stopped, and a page can say what is still to come. It starts nothing and reads no clock.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from campaigns.analysis import refine
from campaigns.analysis.criteria import FAILURE_METRIC
from campaigns.analysis.load_line import Assessment, Level, MeasuredStage
from campaigns.analysis.summary import RunAnalysis
from campaigns.models import StageKind
from campaigns.models.plan import RunPlan

BASELINE_CONCURRENCY = 1
# The closing baseline only has to show a change of more than 10%, which takes fewer requests.
CLOSING_SHARE = 0.5
# A level this many times as far beyond its limit as allowed tells nothing about the load line any more.
FAR_BEYOND = 4.0
# So many stages of a run are measured once more because they were not valid.
AGAIN_MAX = 2


@dataclass(frozen=True, slots=True)
class PlannedStage:
    kind: StageKind
    concurrency: int
    warmup_s: float
    measure_s: float


@dataclass(frozen=True, slots=True)
class WholeStage:
    """A stage that is done; `took_s` from its start to its end."""

    kind: StageKind
    concurrency: int
    took_s: float


@dataclass(frozen=True, slots=True)
class Ceiling:
    """No stage above `concurrency` is worth its time, because of `reason`."""

    concurrency: int
    reason: str


def next_stage(plan: RunPlan, whole: Sequence[WholeStage], analysis: RunAnalysis | None) -> PlannedStage | None:
    """What to measure after the stages `whole`; None: nothing more. `analysis` is of the same stages in the same order,
    None when there are none."""
    ceiling = find_ceiling(plan, analysis)
    for planned in missing_stages(plan, whole, analysis):
        if planned.kind == StageKind.CLOSING:
            return _refinement(plan, whole, analysis) or planned
        if ceiling is None or planned.concurrency <= ceiling.concurrency:
            return planned
    return None


def known_stages(plan: RunPlan) -> list[PlannedStage]:
    """The stages that run whatever the results are, in order: baseline, ladder, closing baseline."""
    return [*_ladder(plan), _closing_stage(plan)]


def find_ceiling(plan: RunPlan, analysis: RunAnalysis | None) -> Ceiling | None:
    """Where the ladder ends early: at a level where requests fail as the abort rule says, or at the second of two
    levels in a row that are far beyond every limit."""
    if analysis is None:
        return None
    for stage in analysis.stages:
        share = stage.stage.table.failure_pct
        climbs = stage.stage.kind in (StageKind.LADDER, StageKind.REFINE)
        if climbs and share is not None and share > plan.abort.error_pct:
            return Ceiling(stage.stage.concurrency, f"{share:.0f}% of the requests failed")
    for before, level in pairwise(analysis.line.levels):
        if _far_beyond(before) and _far_beyond(level):
            reason = (
                f"{before.concurrency} and {level.concurrency} are more than {FAR_BEYOND:.0f} times beyond every limit"
            )
            return Ceiling(level.concurrency, reason)
    return None


def _ladder(plan: RunPlan) -> Iterator[PlannedStage]:
    yield PlannedStage(StageKind.BASELINE, BASELINE_CONCURRENCY, plan.warmup_s, plan.baseline_s)
    for repeat in range(plan.repeats):
        for concurrency in plan.stages:
            # The opening baseline is the ladder's stage at 1 as well.
            if repeat > 0 or concurrency != BASELINE_CONCURRENCY:
                yield PlannedStage(StageKind.LADDER, concurrency, plan.warmup_s, plan.stage_s)


def missing_stages(
    plan: RunPlan, whole: Sequence[WholeStage], analysis: RunAnalysis | None = None
) -> Iterator[PlannedStage]:
    """Known stages that were not measured or, as far as there is an analysis, only invalidly: one more attempt may well
    succeed (a busy moment of the generator's host), but not every time, or a lasting fault would double a run."""
    attempts = Counter(_place(stage) for stage in whole)
    counting = Counter(_place(stage) for stage, counts in zip(whole, _counting(whole, analysis), strict=True) if counts)
    wanted = Counter(_place(stage) for stage in known_stages(plan))
    again = AGAIN_MAX - sum(max(0, attempts[place] - count) for place, count in wanted.items())
    times: Counter[tuple[StageKind, int]] = Counter()
    for planned in known_stages(plan):
        place = _place(planned)
        times[place] += 1
        measured = attempts[place] >= times[place]
        failed_once = attempts[place] == times[place] and counting[place] < times[place]
        if not measured or (failed_once and again > 0):
            yield planned


def _place(stage: PlannedStage | WholeStage) -> tuple[StageKind, int]:
    return stage.kind, stage.concurrency


def _counting(whole: Sequence[WholeStage], analysis: RunAnalysis | None) -> list[bool]:
    """Which stages are of use: the valid ones, and those that show all the same that a level is beyond its limit."""
    if analysis is None:
        return [True] * len(whole)
    return [one.valid or one.within == "beyond" for one in analysis.stages]


def _refinement(plan: RunPlan, whole: Sequence[WholeStage], analysis: RunAnalysis | None) -> PlannedStage | None:
    if not plan.refine.enabled or analysis is None or any(stage.kind == StageKind.CLOSING for stage in whole):
        return None
    spent_s = sum(stage.took_s for stage in whole if stage.kind == StageKind.REFINE)
    measured = [
        MeasuredStage(one.stage.concurrency, one.stage.kind, one.stage.table, one.checks) for one in analysis.stages
    ]
    step = refine.next_stage(
        analysis.line, measured, plan.refine.budget_s - spent_s, plan.stage_s, overhead_s=plan.warmup_s
    )
    if step.concurrency is None:
        return None
    return PlannedStage(StageKind.REFINE, step.concurrency, plan.warmup_s, step.measure_s)


def _closing_stage(plan: RunPlan) -> PlannedStage:
    return PlannedStage(StageKind.CLOSING, BASELINE_CONCURRENCY, plan.warmup_s, plan.baseline_s * CLOSING_SHARE)


def _far_beyond(level: Level) -> bool:
    judged = [one for one in level.assessments if one.criterion.metric != FAILURE_METRIC]
    return bool(judged) and all(_exceeds(one) for one in judged)


def _exceeds(one: Assessment) -> bool:
    criterion = one.criterion
    if criterion.max_degradation_pct is not None:
        return one.degradation is not None and one.degradation.pct > FAR_BEYOND * criterion.max_degradation_pct
    return one.value is not None and criterion.max_value is not None and one.value > FAR_BEYOND * criterion.max_value
