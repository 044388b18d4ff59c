"""Whether one stage's numbers count: was the load what was asked, was it steady, are its requests like the baseline's.

Knows one stage and the baseline; knows no criterion and gives no verdict on the server.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from campaigns.analysis.requests import RequestTable

StageKind = Literal["baseline", "ladder", "refine", "closing"]


@dataclass(frozen=True)
class StageInput:
    """One stage as it was run. `table` holds every request of the stage, unmeasured ones included. None: not known."""

    concurrency: int
    kind: StageKind
    table: RequestTable
    window_s: float
    # When the window opened, from the stage's start; None: when the first measured request was sent.
    window_start_s: float | None = None
    in_flight_mean: float | None = None
    lateness_p99_ms: float | None = None
    # Of the busiest generator process, as a share of one core (0 to 1).
    cpu_share: float | None = None
    processes: int = 1
    # Median output tokens that the mix asks for, per class; classes without a planned length are left out.
    planned_output_tokens: Mapping[str, float] = field(default_factory=dict)
    # Share of input tokens that the mix means to find in a prefix cache (0 to 1).
    intended_cached_share: float = 0.0
    timeout_s: float | None = None


@dataclass(frozen=True, slots=True)
class Check:
    """One rule's answer. `ok` is None when it could not be checked. A failed check of severity "invalid" takes the stage
    out of the verdict; with `understates` its fault can only make the server look better than it is, so that a stage
    beyond the limit stays evidence. `reason` and `remedy` are empty when all is well.
    """

    name: str
    ok: bool | None
    severity: Literal["invalid", "warning"]
    value: float | None
    limit: float | None
    reason: str = ""
    remedy: str = ""
    understates: bool = False


def check_stage(stage: StageInput, baseline: StageInput | None) -> tuple[Check, ...]:
    """Every rule's answer for `stage`; `baseline` is None for the opening baseline itself."""
    raise NotImplementedError


def is_valid(checks: Sequence[Check]) -> bool:
    return not invalid_checks(checks)


def invalid_checks(checks: Sequence[Check]) -> tuple[Check, ...]:
    """The failed checks that take the stage out of the verdict."""
    return tuple(check for check in checks if check.ok is False and check.severity == "invalid")


def warnings(checks: Sequence[Check]) -> tuple[Check, ...]:
    """The failed checks that leave the stage valid."""
    return tuple(check for check in checks if check.ok is False and check.severity == "warning")
