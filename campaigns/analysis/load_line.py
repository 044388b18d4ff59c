"""The load line of a run: the highest concurrency that keeps every criterion, its interval, and what limits it.

Knows the measured stages and the criteria; knows nothing of how they were run or stored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from campaigns.analysis.assessment import Assessment, Within, assess, joint
from campaigns.analysis.criteria import (
    DEFAULT_CRITERIA,
    FAILURE_CRITERION,
    FAILURE_METRIC,
    Criterion,
    Interval,
)
from campaigns.analysis.degradation import RESAMPLES, Degradation, degradation
from campaigns.analysis.max_concurrency import Level, LimitedBy, MaxConcurrency, max_concurrency, no_answer
from campaigns.analysis.notes import doubts_of, notes_of
from campaigns.analysis.requests import RequestTable, concatenate
from campaigns.analysis.validity import Check, StageKind, invalid_checks, is_valid

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
    "Verdict",
    "Within",
    "all_criteria",
    "degradation",
    "find_load_line",
]

Verdict = Literal["ok", "drifted", "baseline_unstable", "no_valid_stage"]

DRIFT_MAX_PCT = 10.0
# Resampling fewer values than this shows less spread than they have: one value has none.
DRIFT_MIN_A_CLASS = 5


@dataclass(frozen=True, eq=False)
class MeasuredStage:
    """One measurement: its requests and what `check_stage` said of them. Equal only to itself."""

    concurrency: int
    kind: StageKind
    table: RequestTable
    checks: tuple[Check, ...] = ()


@dataclass(frozen=True, slots=True)
class Drift:
    """Closing against opening baseline, medians within class; `pct` is the largest change by size. `beyond_chance`: one
    change is over `DRIFT_MAX_PCT`, and its 95% interval excludes no change at all: a few requests may differ so much
    on a server that stayed as it was."""

    pct: float
    per_metric: Mapping[str, float]
    beyond_chance: bool


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
    answer can be "1". Without it a ladder whose first stage fails gives "< first stage". Raises ValueError for weights
    of which none is above 0.
    """
    if not any(weight > 0 for weight in weights.values()):
        raise ValueError("the mix has no class with a weight above 0")
    steady = steady_baselines(stages)
    if not steady:
        opening = [stage for stage in stages if stage.kind == "baseline"]
        reason = f"the opening one: {_why(opening)}" if opening else "there is no opening baseline"
        return _unanswered("baseline_unstable", "none: baseline unstable", [reason])
    judge = _Judge(stages, steady, all_criteria(criteria), weights, seed, baseline_is_rung, resamples)
    failures = judge.baseline_failures()
    if failures is not None:
        return _unanswered("baseline_unstable", "none: baseline unstable", [failures])
    levels = judge.levels()
    drift, drift_doubts = judge.drift()
    if drift is not None and drift.beyond_chance:
        timed_out = np.isinf(drift.pct)
        reason = "the closing baseline " + ("timed out" if timed_out else f"differs by {drift.pct:+.0f}%")
        return _unanswered("drifted", "none: drifted", [reason], levels, drift)
    absent, flattered = _absent(levels, stages), _flattered(levels, stages)
    others = [level for level in levels if level.concurrency != judge.baseline_concurrency]
    if all(level.within is None for level in others):
        text = "none: no valid stage" if others else "none: no stage beyond the baseline was measured"
        return _unanswered("no_valid_stage", text, absent, levels, drift)
    answer = max_concurrency(levels, judge.criteria)
    doubts = doubts_of(levels, answer, judge.baseline_concurrency) + drift_doubts
    return LoadLine(
        verdict="ok",
        max_concurrency=answer,
        per_criterion=tuple((one, max_concurrency(levels, [one])) for one in judge.criteria),
        levels=levels,
        drift=drift,
        confidence="low" if doubts else "normal",
        doubts=doubts,
        notes=notes_of(levels, answer) + flattered + absent,
    )


def all_criteria(criteria: Sequence[Criterion]) -> tuple[Criterion, ...]:
    """`criteria`, and the default one on failures unless they have their own."""
    if any(one.metric == FAILURE_METRIC for one in criteria):
        return tuple(criteria)
    return (*criteria, FAILURE_CRITERION)


def steady_baselines(stages: Sequence[MeasuredStage]) -> list[MeasuredStage]:
    """The opening baselines that count."""
    return [stage for stage in stages if stage.kind == "baseline" and is_valid(stage.checks)]


def measurements_of(stages: Sequence[MeasuredStage], concurrency: int) -> list[MeasuredStage]:
    """The valid measurements of one level of the ladder; without any, those whose faults can only flatter the server:
    they may still prove "beyond"."""
    here = [stage for stage in stages if stage.concurrency == concurrency and stage.kind in ("ladder", "refine")]
    valid = [stage for stage in here if is_valid(stage.checks)]
    return valid or [stage for stage in here if all(check.understates for check in invalid_checks(stage.checks))]


def pool(stages: Sequence[MeasuredStage]) -> RequestTable:
    """The requests of several measurements of one load."""
    return concatenate([stage.table for stage in stages])


class _Judge:
    """The run's baseline, criteria and seed, applied to one level after the other."""

    def __init__(
        self,
        stages: Sequence[MeasuredStage],
        steady: Sequence[MeasuredStage],
        criteria: tuple[Criterion, ...],
        weights: Mapping[str, float],
        seed: int,
        baseline_is_rung: bool,
        resamples: int,
    ) -> None:
        self.stages = stages
        self.steady = steady
        self.criteria = criteria
        self.weights = weights
        self.seed = seed
        self.baseline_is_rung = baseline_is_rung
        self.resamples = resamples
        self.baseline_concurrency = steady[0].concurrency
        self.baseline = pool(steady)

    def baseline_failures(self) -> str | None:
        """Why the baseline's failed requests make it useless; None when they do not."""
        for one in self.criteria:
            if one.metric == FAILURE_METRIC:
                found = self._assess(self.baseline, one)
                if found.within == "beyond":
                    return f"{found.value:.1f}% of the baseline's requests failed"
        return None

    def levels(self) -> tuple[Level, ...]:
        concurrencies = {stage.concurrency for stage in self.stages if stage.kind != "closing"}
        return tuple(self._level(concurrency) for concurrency in sorted(concurrencies))

    def drift(self) -> tuple[Drift | None, tuple[str, ...]]:
        """Closing against opening baseline, and why it could not be told."""
        closing = [stage for stage in self.stages if stage.kind == "closing"]
        if not closing:
            return None, ("drift was not checked: there is no closing baseline",)
        valid = [stage for stage in closing if is_valid(stage.checks)]
        if not valid:
            return None, (f"drift was not checked: the closing baseline is invalid ({_why(closing)})",)
        table = pool(valid)
        changes = {
            one.metric: found
            for one in DEFAULT_CRITERIA
            if (found := degradation(table, self.baseline, one, self.weights, self.seed, self.resamples)) is not None
        }
        if not changes:
            return None, ("drift was not checked: the baselines have no latency in common",)
        material = [found for found in changes.values() if abs(found.pct) > DRIFT_MAX_PCT]
        drift = Drift(
            pct=max((found.pct for found in changes.values()), key=abs),
            per_metric={metric: found.pct for metric, found in changes.items()},
            beyond_chance=_can_tell(table, self.baseline) and any(one.low > 0 or one.high < 0 for one in material),
        )
        if material and not drift.beyond_chance:
            chance = f"the closing baseline differs by {drift.pct:+.0f}%, which may be chance: measure baselines longer"
            return drift, (chance,)
        return drift, ()

    def _level(self, concurrency: int) -> Level:
        used = measurements_of(self.stages, concurrency)
        on_ladder = any(s.concurrency == concurrency and s.kind in ("ladder", "refine") for s in self.stages)
        is_baseline = concurrency == self.baseline_concurrency and not used
        used = list(self.steady) if is_baseline else used
        assessments: tuple[Assessment, ...] = ()
        answered = 0
        if used:
            table = pool(used)
            answered = table.cohort().counts["ok"]
            assessments = tuple(self._assess(table, one, concurrency) for one in self.criteria)
        if is_baseline:
            assessments = tuple(_by_definition(one, self.resamples) for one in assessments)
        within = joint(assessments)
        valid = any(is_valid(stage.checks) for stage in used)
        return Level(
            concurrency=concurrency,
            valid=valid,
            within=within if valid or within == "beyond" else None,
            measurements=len(used),
            assessments=assessments,
            answered=answered,
            is_rung=on_ladder or self.baseline_is_rung,
        )

    def _assess(self, table: RequestTable, criterion: Criterion, salt: int = 0) -> Assessment:
        return assess(table, self.baseline, criterion, self.weights, self.seed, salt, self.resamples)


def _by_definition(assessment: Assessment, resamples: int) -> Assessment:
    """The baseline against itself: no degradation, without noise."""
    limit, found = assessment.criterion.max_degradation_pct, assessment.degradation
    if limit is None or found is None:
        return assessment
    excess = -float(np.log1p(limit / 100))
    return replace(
        assessment,
        within="within",
        degradation=Degradation(0.0, 0.0, 0.0, dict.fromkeys(found.per_class, 0.0), found.left_out),
        excess=excess,
        excesses=np.full(resamples, excess),
    )


def _why(measurements: Sequence[MeasuredStage]) -> str:
    """Why the measurements of one stage are invalid, each reason once; empty when none is."""
    found = ["; ".join(check.reason for check in invalid_checks(stage.checks)) for stage in measurements]
    return "; and when measured again: ".join(reasons for reasons in dict.fromkeys(found) if reasons)


def _absent(levels: Sequence[Level], stages: Sequence[MeasuredStage]) -> tuple[str, ...]:
    """Why levels take no part."""
    return tuple(
        f"{level.concurrency} takes no part: {_why(_of(level, stages)) or 'no latency'}"
        for level in levels
        if level.within is None
    )


def _flattered(levels: Sequence[Level], stages: Sequence[MeasuredStage]) -> tuple[str, ...]:
    """Invalid levels that show all the same that the limit is passed."""
    return tuple(
        f"{level.concurrency} is invalid and counts only as evidence that the limit is passed, since its fault can "
        f"only flatter the server: {_why(_of(level, stages))}"
        for level in levels
        if level.within == "beyond" and not level.valid
    )


def _of(level: Level, stages: Sequence[MeasuredStage]) -> list[MeasuredStage]:
    return [one for one in stages if one.concurrency == level.concurrency and one.kind != "closing"]


def _can_tell(closing: RequestTable, opening: RequestTable) -> bool:
    """Whether every class that both hold has enough requests to tell a change from chance."""
    counts = [
        min(len(closing.cohort().of_class(name)), len(opening.cohort().of_class(name)))
        for name in opening.class_names
        if name in closing.class_names
    ]
    return bool(counts) and min(counts) >= DRIFT_MIN_A_CLASS


def _unanswered(
    verdict: Verdict, text: str, reasons: Sequence[str], levels: tuple[Level, ...] = (), drift: Drift | None = None
) -> LoadLine:
    answer = no_answer(f"{text}: {'; '.join(reasons)}" if reasons else text)
    return LoadLine(verdict, answer, (), levels, drift, confidence="normal", notes=tuple(reasons))
