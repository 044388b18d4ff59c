"""Counts what happens while a stage runs, and turns the counts of one second into a progress event."""

from __future__ import annotations

from collections import Counter
from typing import Any, Literal

import msgspec
import numpy as np

from workers.loadgen.answer import Answer, Outcome

Phase = Literal["warmup", "measure", "drain"]


class Tick(msgspec.Struct):
    """Counts since the stage's start; the latencies are of the last second only.

    `counted_tokens` came in `counted_events` of the requests whose tokens the server counted: tokens an event.
    """

    in_flight: int = 0
    sent: int = 0
    by_outcome: dict[str, int] = {}
    events: int = 0
    counted_tokens: int = 0
    counted_events: int = 0
    ttft_ms: list[float] = []
    tpot_ms: list[float] = []

    @property
    def tokens_an_event(self) -> float:
        return self.counted_tokens / self.counted_events if self.counted_events else 1.0


class Meter:
    """The live counts of one process."""

    def __init__(self) -> None:
        self.in_flight = 0
        self.sent = 0
        self._by_outcome: Counter[str] = Counter()
        self._events = 0
        self._counted_tokens = 0
        self._counted_events = 0
        self._ttft_ms: list[float] = []
        self._tpot_ms: list[float] = []

    def output_arrived(self, due_ns: int | None, answer: Answer) -> None:
        """TTFT counts from `due_ns`; null: from the time sent."""
        self._events += 1
        if answer.output_events == 1:
            since_ns = answer.t_sent_ns if due_ns is None else due_ns
            if since_ns is not None:
                self._ttft_ms.append((answer.arrivals_ns[0] - since_ns) / 1e6)

    def ended(self, answer: Answer) -> None:
        assert answer.outcome is not None
        self._by_outcome[answer.outcome] += 1
        tokens, events = answer.output_tokens, answer.output_events
        if answer.token_source == "usage" and tokens:
            self._counted_tokens += tokens
            self._counted_events += events
        if answer.outcome is Outcome.OK and answer.streamed and tokens and tokens > 1 and events > 1:
            self._tpot_ms.append((answer.arrivals_ns[-1] - answer.arrivals_ns[0]) / 1e6 / (tokens - 1))

    def tick(self) -> Tick:
        tick = Tick(
            in_flight=self.in_flight,
            sent=self.sent,
            by_outcome=dict(self._by_outcome),
            events=self._events,
            counted_tokens=self._counted_tokens,
            counted_events=self._counted_events,
            ttft_ms=self._ttft_ms,
            tpot_ms=self._tpot_ms,
        )
        self._ttft_ms, self._tpot_ms = [], []
        return tick


def merge(ticks: list[Tick]) -> Tick:
    """The same second of several processes."""
    by_outcome: Counter[str] = Counter()
    for tick in ticks:
        by_outcome.update(tick.by_outcome)
    return Tick(
        in_flight=sum(tick.in_flight for tick in ticks),
        sent=sum(tick.sent for tick in ticks),
        by_outcome=dict(by_outcome),
        events=sum(tick.events for tick in ticks),
        counted_tokens=sum(tick.counted_tokens for tick in ticks),
        counted_events=sum(tick.counted_events for tick in ticks),
        ttft_ms=[value for tick in ticks for value in tick.ttft_ms],
        tpot_ms=[value for tick in ticks for value in tick.tpot_ms],
    )


class ProgressLine:
    """Makes the event of each tick; remembers the tick before it, for the rates of the last second."""

    def __init__(self) -> None:
        self._last = Tick()
        self._last_s = 0.0
        self._tokens = 0

    def event(self, tick: Tick, phase: Phase, t_s: float) -> dict[str, Any]:
        passed_s = max(t_s - self._last_s, 1e-3)
        tokens = max(self._tokens, round(tick.events * tick.tokens_an_event))
        ok = tick.by_outcome.get(Outcome.OK, 0)
        ended = sum(tick.by_outcome.values())
        new_tokens = (tick.events - self._last.events) * tick.tokens_an_event
        event = {
            "event": "progress",
            "phase": phase,
            "t_s": round(t_s, 3),
            "in_flight": tick.in_flight,
            "sent": tick.sent,
            "completed": ended,
            "ok": ok,
            "failed": ended - ok - tick.by_outcome.get(Outcome.CANCELLED, 0),
            "output_tokens": tokens,
            "output_tokens_per_s": round(new_tokens / passed_s, 3),
            "requests_per_s": round((ok - self._last.by_outcome.get(Outcome.OK, 0)) / passed_s, 3),
            "ttft_ms_p50": _median(tick.ttft_ms),
            "tpot_ms_p50": _median(tick.tpot_ms),
            "by_outcome": {str(outcome): tick.by_outcome.get(outcome, 0) for outcome in Outcome},
        }
        self._last, self._last_s, self._tokens = tick, t_s, tokens
        return event


def _median(values: list[float]) -> float | None:
    return round(float(np.median(values)), 3) if values else None
