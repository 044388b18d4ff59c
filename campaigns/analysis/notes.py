"""Sentences that go with a load line: what a reader should know, and why the answer may be doubted.

Knows levels and the answer; decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from campaigns.analysis.assessment import Assessment
from campaigns.analysis.criteria import FAILURE_METRIC
from campaigns.analysis.max_concurrency import MEASUREMENTS_TO_DECIDE, Level, MaxConcurrency
from campaigns.analysis.validity import FEW_IN_BASELINE, FEW_IN_STAGE

_FASTER_PCT = -5.0


def notes_of(levels: Sequence[Level], answer: MaxConcurrency) -> tuple[str, ...]:
    """The limit in absolute numbers, and everything unusual about the curve."""
    return (*_limit(levels, answer), *_faster(levels), *_left_out(levels), *_no_data(levels))


def doubts_of(levels: Sequence[Level], answer: MaxConcurrency, baseline_concurrency: int) -> tuple[str, ...]:
    """Why the answer has low confidence; empty when it has not."""
    doubts = []
    for level in levels:
        deciding = level.concurrency in (answer.passed, answer.failed)
        is_baseline = level.concurrency == baseline_concurrency
        wanted = FEW_IN_BASELINE if is_baseline else FEW_IN_STAGE
        if (deciding or is_baseline) and 0 < level.answered < wanted:
            name = "the baseline" if is_baseline else str(level.concurrency)
            doubts.append(f"few requests: {name} has {level.answered} answered, {wanted} wanted")
        if deciding and level.within == "unsure":
            doubts.append(
                f"{level.concurrency} is a close call: after {level.measurements} measurements "
                f"(at least {MEASUREMENTS_TO_DECIDE}) its estimate decided"
            )
    return (*doubts, *_again(levels, answer))


def _limit(levels: Sequence[Level], answer: MaxConcurrency) -> Iterator[str]:
    failed = next((level for level in levels if level.concurrency == answer.failed), None)
    if failed is None or answer.limited_by is None:
        return
    for one in failed.assessments:
        criterion = one.criterion
        if (criterion.metric, criterion.stat) != (answer.limited_by.metric, answer.limited_by.stat):
            continue
        first = levels[0].of(criterion)
        if one.within == "within" or one.value is None:
            continue
        if criterion.max_degradation_pct is None or first is None or first.value is None or one.degradation is None:
            yield f"{criterion.label} is {_amount(one)} at {failed.concurrency}, limit {criterion.limit_text}"
        else:
            yield (
                f"{criterion.label} goes from {_amount(first)} at {levels[0].concurrency} to {_amount(one)} at "
                f"{failed.concurrency}: {one.degradation.pct:+.0f}%, limit {criterion.limit_text}"
            )


def _amount(one: Assessment) -> str:
    if one.value is None:
        return "unknown"
    if one.criterion.metric == FAILURE_METRIC:
        return f"{one.value:.1f}%"
    return "longer than the time-out" if one.value == float("inf") else f"{one.value:.4g} ms"


def _again(levels: Sequence[Level], answer: MaxConcurrency) -> Iterator[str]:
    if answer.failed is None:
        return
    again = [str(level.concurrency) for level in levels if level.concurrency > answer.failed and level.passes]
    if again:
        yield f"not monotone: {', '.join(again)} would pass after {answer.failed} failed; the first crossing is kept"


def _faster(levels: Sequence[Level]) -> Iterator[str]:
    for level in levels:
        for one in level.assessments:
            found = one.degradation
            if found is not None and found.pct < _FASTER_PCT and found.high < 0:
                yield f"{level.concurrency} is faster than the baseline: {one.criterion.label} {found.pct:+.0f}%"


def _left_out(levels: Sequence[Level]) -> Iterator[str]:
    for level in levels:
        for one in level.assessments:
            if one.degradation is not None and one.degradation.left_out:
                names = ", ".join(one.degradation.left_out)
                yield f"{one.criterion.label} at {level.concurrency} leaves out {names}: no data on one side"


def _no_data(levels: Sequence[Level]) -> Iterator[str]:
    for one in levels[0].assessments if levels else ():
        others = [level.of(one.criterion) for level in levels if level.assessments]
        if all(found is None or found.within is None for found in others):
            yield f"{one.criterion.label} could not be judged: no stage has it"
