"""What to measure next so that the load line gets sharp: an unsure stage again, or the middle of the gap.

Decides only; knows no clock and starts nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from campaigns.analysis.load_line import LoadLine, MeasuredStage


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
    """
    raise NotImplementedError
