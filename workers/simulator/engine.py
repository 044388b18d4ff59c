"""Ties a replica to the wall clock: sleeps until each step's end and hands the tokens to whoever asked for them.

The schedule is the model's, absolute: a late wake-up delays what a client sees, and no later step. The event loop's
timers are good to about half a millisecond either way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic
from typing import Protocol

from workers.simulator.metrics import Metrics
from workers.simulator.openai import FinishReason
from workers.simulator.replica import Replica
from workers.simulator.scenarios import Scenario
from workers.simulator.scheduler import Sequence


class Listener(Protocol):
    """Who waits for an answer. `finish_reason`: why it will end; `on_token` is called for each of its tokens."""

    @property
    def finish_reason(self) -> FinishReason: ...

    def on_token(self, place: int, last: bool) -> None: ...


class Engine:
    """Made inside a running event loop. At `time_scale` S the model's time passes S times as fast as the wall's."""

    def __init__(self, scenario: Scenario, model: str, time_scale: float, noise: float, seed: int) -> None:
        self._replica = Replica(scenario, noise, seed)
        self.metrics = Metrics(scenario, model, self._replica.scheduler, time_scale)
        self._listeners: dict[Sequence, Listener] = {}
        self._loop = asyncio.get_running_loop()
        self._time_scale = time_scale
        self._started_s = monotonic()
        self._stepping = False
        self._alarm: asyncio.TimerHandle | None = None

    def submit(self, sequence: Sequence, listener: Listener) -> None:
        self._listeners[sequence] = listener
        self._replica.submit(sequence, self._model_s())
        if not self._stepping:
            self._wait_for_arrival()

    def abort(self, sequence: Sequence) -> None:
        """Nobody waits for it any more: what it holds is free at once. One that has ended is left alone."""
        if self._listeners.pop(sequence, None) is not None:
            self._replica.abort(sequence)
            self.metrics.observe_abort()

    def close(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()

    def _begin(self, now_s: float) -> None:
        end_s = self._replica.begin(now_s)
        self._stepping = end_s is not None
        if end_s is not None:
            self._call_at(end_s, self._finish)
        else:
            self._wait_for_arrival()

    def _finish(self, now_s: float) -> None:
        step, emitted = self._replica.finish()
        self.metrics.observe_step(step, emitted)
        for sequence in emitted:
            listener = self._listeners[sequence]
            last = sequence.finished
            if last:
                del self._listeners[sequence]
                self.metrics.observe_end(sequence, listener.finish_reason)
            listener.on_token(sequence.generated - 1, last)
        self._begin(now_s)

    def _wait_for_arrival(self) -> None:
        arrival_s = self._replica.next_arrival_s
        if arrival_s is not None:
            self._call_at(arrival_s, self._begin)

    def _call_at(self, model_s: float, then: Callable[[float], None]) -> None:
        """One alarm at a time; `then` gets the time it was set for, however late it rings."""
        if self._alarm is not None:
            self._alarm.cancel()
        wait_s = (model_s - self._model_s()) / self._time_scale
        self._alarm = self._loop.call_later(max(0.0, wait_s), then, model_s)

    def _model_s(self) -> float:
        return (monotonic() - self._started_s) * self._time_scale
