"""One engine replica in the model's own time: arrivals, steps and their durations, with seeded noise.

Whoever drives it owns the clock: `truth` lets it run free, `engine` ties it to the wall clock.
"""

from __future__ import annotations

import heapq
from itertools import count
from random import Random

from workers.simulator.cost import CostModel
from workers.simulator.kv_cache import PagedCache
from workers.simulator.scenarios import Scenario
from workers.simulator.scheduler import Scheduler, Sequence, Step

# A Gaussian has no bounds, a duration must stay positive.
_FACTOR_MIN, _FACTOR_MAX = 0.5, 2.0


class Replica:
    """Call `begin`, then `finish` for every step that it began."""

    def __init__(self, scenario: Scenario, noise: float, seed: int) -> None:
        self.scheduler = Scheduler(scenario.limits, PagedCache(scenario.cache_blocks, scenario.block_tokens))
        self._cost: CostModel = scenario.cost
        self._noise = noise
        self._gauss = Random(seed).gauss
        self._arrivals: list[tuple[float, int, Sequence]] = []
        self._order = count()
        self._step: Step | None = None
        self._end_s = 0.0

    def submit(self, sequence: Sequence, now_s: float) -> None:
        """It reaches the scheduler after the CPU's time for a request."""
        sequence.arrived_s = now_s
        due_s = now_s + self._cost.cpu_s_per_request * self._factor(self._cost.cpu_jitter_per_request)
        heapq.heappush(self._arrivals, (due_s, next(self._order), sequence))

    def abort(self, sequence: Sequence) -> None:
        self.scheduler.abort(sequence)

    @property
    def next_arrival_s(self) -> float | None:
        return self._arrivals[0][0] if self._arrivals else None

    def begin(self, now_s: float) -> float | None:
        """Starts the step that begins at `now_s` and tells when it ends; None when there is nothing to do."""
        while self._arrivals and self._arrivals[0][0] <= now_s:
            due_s, _, sequence = heapq.heappop(self._arrivals)
            if not sequence.aborted:
                self.scheduler.add(sequence, due_s)
        step = self.scheduler.schedule(now_s)
        if not step.work:
            return None
        self._step = step
        step_s = self._cost.step_s(step.tokens, step.kv_tokens, len(step.work))
        self._end_s = now_s + step_s * self._factor(self._noise)
        return self._end_s

    def finish(self) -> tuple[Step, list[Sequence]]:
        """The step that was begun, over; and the sequences that got a token by it."""
        step = self._step
        assert step is not None
        self._step = None
        return step, self.scheduler.complete(step, self._end_s)

    def _factor(self, spread: float) -> float:
        return min(_FACTOR_MAX, max(_FACTOR_MIN, self._gauss(1.0, spread)))
