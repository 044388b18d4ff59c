"""What to measure next so that the load line gets sharp: an unsure stage again, or the middle of the gap.

Decides only; knows no clock and starts nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from campaigns.analysis.load_line import LoadLine, MeasuredStage
from campaigns.analysis.max_concurrency import MEASUREMENTS_TO_DECIDE

# Closer than this the last pass and the first fail are one answer.
CLOSE_ENOUGH = 0.05
LONGER = 2.0


@dataclass(frozen=True, slots=True)
class Refinement:
    """Measure `concurrency` for `measure_s` seconds; with `concurrency` None refinement is over. `reason` in words."""

    concurrency: int | None
    measure_s: float
    reason: str

    @property
    def finished(self) -> bool:
        return self.concurrency is None


def next_stage(
    line: LoadLine, measured: Sequence[MeasuredStage], budget_left_s: float, stage_s: float, overhead_s: float = 0.0
) -> Refinement:
    """The next step for a run whose load line so far is `line`, made of `measured`. A stage costs its measuring time
    (`stage_s`, twice that for one measured again) and `overhead_s` for warm-up and drain.

    An unsure stage is measured again, at most `MEASUREMENTS_TO_DECIDE` times in all; else the gap between the last pass
    and the first fail is halved (on the log scale, as the curve is fitted) until they are neighbours or within 5%.
    """
    step = _wanted(line, measured, stage_s)
    cost_s = step.measure_s + overhead_s
    if not step.finished and cost_s > budget_left_s:
        return _finished(f"budget spent: {step.concurrency} would take {cost_s:.0f} s, {budget_left_s:.0f} s are left")
    return step


def _wanted(line: LoadLine, measured: Sequence[MeasuredStage], stage_s: float) -> Refinement:
    answer = line.max_concurrency
    if line.verdict != "ok":
        return _finished(answer.text)
    if answer.unsure:
        lowest = answer.unsure[0]
        times = _times(measured, lowest)
        if times >= MEASUREMENTS_TO_DECIDE:
            return _finished(f"{lowest} stays unsure after {times} measurements")
        return Refinement(lowest, LONGER * stage_s, f"{lowest} is unsure: measure it longer")
    if answer.failed is None:
        return _finished("nothing tested failed: extend the ladder to find the limit")
    passed, failed = answer.passed or _baseline(measured), answer.failed
    if failed - passed <= 1:
        return _finished(f"{passed} and {failed} are neighbours")
    if (failed - passed) / passed <= CLOSE_ENOUGH:
        return _finished(f"{passed} and {failed} are within {CLOSE_ENOUGH:.0%}")
    middle = min(max(round(math.sqrt(passed * failed)), passed + 1), failed - 1)
    times = _times(measured, middle)
    if times >= MEASUREMENTS_TO_DECIDE:
        return _finished(f"{middle} could not be measured validly in {times} attempts")
    if times:
        return Refinement(middle, stage_s, f"{middle} was invalid: measure it again")
    return Refinement(middle, stage_s, f"between {passed}, which passed, and {failed}, which failed")


def _finished(reason: str) -> Refinement:
    return Refinement(None, 0.0, reason)


def _times(measured: Sequence[MeasuredStage], concurrency: int) -> int:
    return sum(stage.concurrency == concurrency and stage.kind in ("ladder", "refine") for stage in measured)


def _baseline(measured: Sequence[MeasuredStage]) -> int:
    return min(stage.concurrency for stage in measured if stage.kind == "baseline")
