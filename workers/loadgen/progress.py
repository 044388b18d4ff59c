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


class _Watched:
    """An answer in flight, and how much of it was counted. TTFT counts from `due_ns`; null: from the time sent."""

    __slots__ = ("answer", "due_ns", "events")

    def __init__(self, answer: Answer, due_ns: int | None) -> None:
        self.answer = answer
        self.due_ns = due_ns
        self.events = 0


class Meter:
    """The live counts of one process. Output is counted when a tick asks, not event by event."""

    def __init__(self) -> None:
        self._sent = 0
        self._watched: dict[Answer, _Watched] = {}
        self._by_outcome: Counter[str] = Counter()
        self._events = 0
        self._counted_tokens = 0
        self._counted_events = 0
        self._ttft_ms: list[float] = []
        self._tpot_ms: list[float] = []

    def sending(self, answer: Answer, due_ns: int | None) -> None:
        """From now on it is in flight."""
        self._sent += 1
        self._watched[answer] = _Watched(answer, due_ns)

    def ended(self, answer: Answer) -> None:
        """Also of one that was never sent."""
        assert answer.outcome is not None
        watched = self._watched.pop(answer, None)
        if watched is not None:
            self._count(watched)
        self._by_outcome[answer.outcome] += 1
        tokens, events = answer.output_tokens, answer.output_events
        if answer.token_source == "usage" and tokens:
            self._counted_tokens += tokens
            self._counted_events += events
        if answer.outcome is Outcome.OK and answer.streamed and tokens and tokens > 1 and events > 1:
            self._tpot_ms.append((answer.arrivals_ns[-1] - answer.arrivals_ns[0]) / 1e6 / (tokens - 1))

    def tick(self) -> Tick:
        for watched in self._watched.values():
            self._count(watched)
        tick = Tick(
            in_flight=len(self._watched),
            sent=self._sent,
            by_outcome=dict(self._by_outcome),
            events=self._events,
            counted_tokens=self._counted_tokens,
            counted_events=self._counted_events,
            ttft_ms=self._ttft_ms,
            tpot_ms=self._tpot_ms,
        )
        self._ttft_ms, self._tpot_ms = [], []
        return tick

    def _count(self, watched: _Watched) -> None:
        """What came of one answer since it was last counted."""
        answer, known = watched.answer, watched.events
        watched.events = answer.output_events
        self._events += watched.events - known
        if not known and watched.events:
            since_ns = answer.t_sent_ns if watched.due_ns is None else watched.due_ns
            if since_ns is not None:
                self._ttft_ms.append((answer.arrivals_ns[0] - since_ns) / 1e6)


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
