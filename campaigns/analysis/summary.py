"""One call that turns the stages of a run into everything the results page states. Only joins the other modules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from campaigns.analysis.criteria import FAILURE_METRIC, Criterion
from campaigns.analysis.degradation import Degradation, degradation
from campaigns.analysis.latency import Percentiles, summarize
from campaigns.analysis.load_line import (
    LoadLine,
    MeasuredStage,
    Within,
    find_load_line,
    measurements_of,
    pool,
    steady_baselines,
)
from campaigns.analysis.requests import RequestTable
from campaigns.analysis.scaling import Scaling, fit_scaling
from campaigns.analysis.validity import Check, StageInput, check_stage, is_valid
from campaigns.analysis.window import completions_per_s, window_of

# Drawn on every results page, whatever the criteria are. Their limit is never asked for.
_DRAWN = tuple(
    Criterion(metric, stat, max_degradation_pct=0)
    for metric in ("ttft_ms", "tpot_ms")
    for stat in ("p50", "p90", "p99")
)


@dataclass(frozen=True)
class RunInput:
    """The whole stages of a run in the order they ran. See `find_load_line` for `baseline_is_rung`."""

    stages: tuple[StageInput, ...]
    criteria: tuple[Criterion, ...]
    weights: Mapping[str, float]
    seed: int
    baseline_is_rung: bool = True


@dataclass(frozen=True)
class StageAnalysis:
    """One stage's result. `within` and `degradations` ({metric: {stat: …}}) are those of its level, where measurements
    of one concurrency are pooled; a stage that takes no part has no `within` and its own degradations. `percentiles`
    ({metric: …}) and `requests_per_s` (answers inside the window) are the stage's own.
    """

    stage: StageInput
    checks: tuple[Check, ...]
    valid: bool
    within: Within | None
    degradations: Mapping[str, Mapping[str, Degradation]]
    percentiles: Mapping[str, Percentiles | None]
    requests_per_s: float | None


@dataclass(frozen=True)
class RunAnalysis:
    """`stages` in the order given."""

    stages: tuple[StageAnalysis, ...]
    line: LoadLine
    scaling: Scaling | None


def analyse_run(run: RunInput) -> RunAnalysis:
    """Check, judge and fit; the same input gives the same answer. Raises ValueError for a mix without weights."""
    measured = measure(run.stages)
    line = find_load_line(measured, run.criteria, run.weights, run.seed, baseline_is_rung=run.baseline_is_rung)
    stages = tuple(_analyse(stage, one, measured, line, run) for stage, one in zip(run.stages, measured, strict=True))
    return RunAnalysis(stages, line, _scaling(stages))


def measure(stages: Sequence[StageInput]) -> tuple[MeasuredStage, ...]:
    """Check each stage against the first opening baseline; what `find_load_line` and `next_stage` take."""
    baseline = next((stage for stage in stages if stage.kind == "baseline"), None)
    return tuple(
        MeasuredStage(
            concurrency=stage.concurrency,
            kind=stage.kind,
            table=stage.table,
            checks=check_stage(stage, None if stage.kind == "baseline" else baseline),
        )
        for stage in stages
    )


def _analyse(
    stage: StageInput, own: MeasuredStage, measured: Sequence[MeasuredStage], line: LoadLine, run: RunInput
) -> StageAnalysis:
    baselines = steady_baselines(measured)
    in_level = measurements_of(measured, stage.concurrency)
    is_baseline = own in baselines
    takes_part = is_baseline or own in in_level
    within = next((level.within for level in line.levels if level.concurrency == stage.concurrency), None)
    degradations: dict[str, dict[str, Degradation]] = {}
    if baselines and not is_baseline:
        degradations = _degradations(pool(in_level) if own in in_level else own.table, pool(baselines), own, run)
    window = window_of(stage.table, stage.window_s, stage.window_start_s)
    return StageAnalysis(
        stage=stage,
        checks=own.checks,
        valid=is_valid(own.checks),
        within=within if takes_part else None,
        degradations=degradations,
        percentiles=_percentiles(stage.table.cohort()),
        requests_per_s=None if window is None else completions_per_s(stage.table, window),
    )


def _degradations(
    table: RequestTable, baseline: RequestTable, stage: MeasuredStage, run: RunInput
) -> dict[str, dict[str, Degradation]]:
    found: dict[str, dict[str, Degradation]] = {}
    wanted = {(one.metric, one.stat): one for one in (*_DRAWN, *run.criteria) if one.metric != FAILURE_METRIC}
    for (metric, stat), criterion in wanted.items():
        one = degradation(table, baseline, criterion, run.weights, run.seed, salt=stage.concurrency)
        if one is not None:
            found.setdefault(metric, {})[stat] = one
    return found


def _percentiles(cohort: RequestTable) -> dict[str, Percentiles | None]:
    found = {metric: summarize(cohort.latency(metric)) for metric in ("ttft_ms", "tpot_ms", "e2e_ms")}
    return found | {"itl_ms": summarize(cohort.gaps()[0])}


def _scaling(stages: Sequence[StageAnalysis]) -> Scaling | None:
    """From clean, steady stages only; the closing baseline repeats the first level and is left out."""
    clean = [one for one in stages if one.valid and one.stage.kind != "closing" and one.requests_per_s is not None]
    return fit_scaling([one.stage.concurrency for one in clean], [one.requests_per_s or 0.0 for one in clean])
