"""Measures one stage: runs the load generator on a plan, hands its progress on, and ends it early when a rule fires or
when it hangs. It knows nothing of the database; what a stage means for the run is the conductor's to decide.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from campaigns.services.outcomes import Outcomes
from workers.abort import FailureShare
from workers.driver import Driver, DriverFailed, Measurement

# The generator speaks once a second; it is silent for longer only while it writes a long log.
SILENT_MAX_S = 15.0
# Beyond warm-up, window and drain: starting Python, connecting, writing the log.
OVERHEAD_MAX_S = 30.0


@dataclass(frozen=True, slots=True)
class Measured:
    """`ended_early`: why the stage was stopped before its time, in words; None when it ran to its end."""

    measurement: Measurement
    ended_early: str | None


def measure(
    plan: Mapping[str, Any],
    api_key: str,
    rule: FailureShare,
    checkpoint: Callable[[], None],
    on_progress: Callable[[dict[str, Any]], None],
) -> Measured:
    """Run the stage of the generator's plan `plan`. `checkpoint` is called several times a second; what it raises ends
    the generator and passes through. Raises DriverFailed when the generator dies, hangs or leaves no result."""
    limit_s = plan["warmup_s"] + plan["measure_s"] + plan["drain_s"] + OVERHEAD_MAX_S
    begun = heard = time.monotonic()
    ended_early: str | None = None
    with Driver(plan, api_key) as driver:
        for line in driver.lines():
            checkpoint()
            now = time.monotonic()
            if now - begun > limit_s:
                raise DriverFailed(f"The load generator did not end within {limit_s:.0f} s")
            if line is None:
                if now - heard > SILENT_MAX_S:
                    raise DriverFailed(f"The load generator has said nothing for {SILENT_MAX_S:.0f} s")
                continue
            heard = now
            if line.get("event") != "progress":
                continue
            on_progress(line)
            rule.take(line["t_s"], Outcomes.of_counts(line["by_outcome"]))
            if ended_early is None and (ended_early := rule.fired()) is not None:
                driver.stop()
        return Measured(driver.measurement(), ended_early)
