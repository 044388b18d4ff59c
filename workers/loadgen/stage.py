"""Runs one process's part of a stage: keeps the load up through warm-up, window and drain, and records every request.

It decides when a request is sent and whether it is measured, not what an answer means or how bytes travel.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from random import Random
from secrets import randbits
from time import monotonic_ns
from typing import Any

import pyarrow as pa

from workers.loadgen.answer import Answer, Outcome
from workers.loadgen.arrivals import first_sends_s, open_arrivals_s
from workers.loadgen.backoff import Backoff
from workers.loadgen.calibration import Calibrator
from workers.loadgen.deal import deal
from workers.loadgen.gaps import Counted
from workers.loadgen.gauge import Gauge
from workers.loadgen.plan import ClosedLoad, OpenLoad, Plan
from workers.loadgen.progress import Meter, Phase, Tick
from workers.loadgen.prompt_files import FileRow
from workers.loadgen.prompts import Prepared, PreparedRequests, PromptMaker
from workers.loadgen.records import Records
from workers.loadgen.summary import Window
from workers.loadgen.tokens import Tokens
from workers.loadgen.transport import ConnectError, Connection, Receiving, Transport

# Bodies made ahead: enough for slots that become free together, few enough for long prompts to fit in memory.
_PREPARED_MAX = 32
# A request begun this shortly before the window may be sent inside it, and then the drain has to wait for it too.
_SENDING_NS = 50_000_000
_RETRIED = {Outcome.TIMEOUT, Outcome.REFUSED, Outcome.HTTP_ERROR, Outcome.CONNECT_ERROR, Outcome.STREAM_ERROR}


@dataclass(frozen=True, slots=True)
class Share:
    """Which part of a stage's load this process carries. `stage` is a number that all parts of one stage share."""

    part: int = 0
    parts: int = 1
    stage: int = field(default_factory=lambda: randbits(63))

    def of(self, total: int) -> int:
        """This part's share of a whole number."""
        return total // self.parts + (self.part < total % self.parts)


class StagePart:
    """`prepare`, then `run` once. `cancel` may be called at any time in between."""

    def __init__(
        self,
        plan: Plan,
        transport: Transport,
        prompts: Mapping[int, Sequence[FileRow]],
        redact: Callable[[str], str],
        share: Share,
        tokens: Tokens | None = None,
        trace_s: Sequence[float] = (),
    ) -> None:
        self.calibrator = Calibrator(plan.protocol, plan.calibration, None if tokens is None else tokens.added)
        self.gauge = Gauge()
        self.meter = Meter()
        self.receiving: Receiving | None = None
        self.gaps: list[Counted | None] = []
        self.capped = 0
        self.cancelled = False
        self.ended_s = 0.0
        self._plan = plan
        self._transport = transport
        self._redact = redact
        self._tokens = tokens
        self._trace_s = trace_s
        self._share = share
        self._open = isinstance(plan.load, OpenLoad)
        in_flight = plan.load.max_outstanding if isinstance(plan.load, OpenLoad) else plan.load.concurrency
        self._slots = share.of(in_flight)
        limit = None if plan.max_requests is None else share.of(plan.max_requests)
        vocabulary = None if tokens is None else tokens.vocabulary()
        maker = PromptMaker(plan, self.calibrator, prompts, vocabulary, share.stage)
        dealt = deal(plan.mix, plan.seed, share.part, share.parts)
        self._requests = PreparedRequests(dealt, maker, min(self._slots, _PREPARED_MAX), limit)
        self._idle: list[Connection] = []
        self._stop = asyncio.Event()
        self._end_reason = "the stage ended"
        self._cohort_open = 0
        self._cohort_ended = asyncio.Event()
        self._random = Random(f"{plan.seed} backoff {share.part}")

    @property
    def transport(self) -> str:
        """What carries the requests."""
        return self._transport.name

    async def prepare(self) -> None:
        """Make the closed loop's connections, so that no request waits for one. A failure shows later, at a request."""
        if not self._open:
            self._idle = [self._transport.connection() for _ in range(self._slots)]
            connecting = asyncio.create_task(_all([self._connect(connection) for connection in self._idle]))
            stop = asyncio.create_task(self._stop.wait())
            await asyncio.wait([connecting, stop], return_when=asyncio.FIRST_COMPLETED)
            await _cancel([connecting, stop])
        # Collecting garbage pauses everything for milliseconds; reference counts free what requests leave behind.
        gc.collect()
        gc.freeze()
        gc.disable()

    async def run(
        self, start_ns: int, on_tick: Callable[[Tick, Phase, float], None], hold: Callable[[], Awaitable[None]] | None
    ) -> tuple[pa.Table, Window]:
        """All requests, and the window as it really was.

        `start_ns` is a monotonic time to come. `on_tick` is called each second. Once this part's measured requests have
        ended, load is kept up until `hold()` returns: until those of the other parts have ended too.
        """
        plan = self._plan
        self._start_ns = start_ns
        self._window_start_ns = start_ns + round(plan.warmup_s * 1e9)
        self._window_end_ns = self._window_start_ns + round(plan.measure_s * 1e9)
        window_ns = (self._window_start_ns - start_ns, self._window_end_ns - start_ns)
        self._records = Records([one.name for one in plan.mix.classes], start_ns, window_ns, plan.keep_itl)
        load = asyncio.create_task(self._load())
        helpers = [asyncio.create_task(self._timeline(hold)), asyncio.create_task(self._tick_each_second(on_tick))]
        stop = asyncio.create_task(self._stop.wait())
        await asyncio.wait([load, stop, *helpers], return_when=asyncio.FIRST_COMPLETED)
        await _cancel([load, stop, *helpers])
        ended_ns = monotonic_ns()
        self.ended_s = (ended_ns - start_ns) / 1e9
        self.gauge.stop()
        if self.receiving is None:
            self.receiving = self._transport.receiving()
        gc.enable()
        gc.unfreeze()
        window = Window(window_ns[0], max(window_ns[0], min(window_ns[1], ended_ns - start_ns)))
        self.gaps = self._records.gaps()
        if self._tokens is not None:
            self._records.count_tokens(self._tokens.count)
        return self._records.table(), window

    def cancel(self) -> None:
        """End at once; what is in flight is closed and recorded as cancelled."""
        self.cancelled = True
        self._end("the stage was cancelled")

    # Time

    async def _timeline(self, hold: Callable[[], Awaitable[None]] | None) -> None:
        await _sleep_until(self._window_start_ns)
        self.calibrator.freeze()
        self._requests.remake()
        self.gauge.start()
        self._transport.receiving()  # counts anew from here
        await _sleep_until(self._window_end_ns)
        self.gauge.stop()
        self.receiving = self._transport.receiving()
        if self._cohort_open == 0:
            self._cohort_ended.set()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._plan.drain_s):
                await self._cohort_ended.wait()
                if hold is not None:
                    await hold()
        self._end("cut by drain limit" if self._cohort_open else "the stage ended")

    def _end(self, reason: str) -> None:
        if not self._stop.is_set():
            self._end_reason = reason
            self._stop.set()

    async def _tick_each_second(self, on_tick: Callable[[Tick, Phase, float], None]) -> None:
        second = 1
        while True:
            await _sleep_until(self._start_ns + second * 1_000_000_000)
            now_ns = monotonic_ns()
            on_tick(self.meter.tick(), self._phase(now_ns), (now_ns - self._start_ns) / 1e9)
            second = max(second + 1, (now_ns - self._start_ns) // 1_000_000_000 + 1)

    def _phase(self, now_ns: int) -> Phase:
        if now_ns < self._window_start_ns:
            return "warmup"
        return "measure" if now_ns < self._window_end_ns else "drain"

    def _in_window(self, time_ns: int) -> bool:
        return self._window_start_ns <= time_ns < self._window_end_ns

    def _may_be_measured(self, begun_ns: int) -> bool:
        return self._window_start_ns - _SENDING_NS <= begun_ns < self._window_end_ns

    # Load

    async def _load(self) -> None:
        load = self._plan.load
        await _all(self._closed(load) if isinstance(load, ClosedLoad) else [self._arrive(load)])

    def _closed(self, load: ClosedLoad) -> list[Coroutine[Any, Any, None]]:
        first_s = first_sends_s(load.concurrency, self._plan.warmup_s, self._plan.seed)
        own = first_s[self._share.part :: self._share.parts]
        return [
            self._slot(connection, self._start_ns + round(offset_s * 1e9))
            for connection, offset_s in zip(self._idle, own, strict=True)
        ]

    async def _slot(self, connection: Connection, due_ns: int) -> None:
        """Sends requests and their later turns, one after the other, until it is cancelled or there are no more."""
        backoff = Backoff(self._random, self._plan.backoff_max_s)
        following: Prepared | None = None
        while True:
            await _sleep_until(due_ns)
            prepared = following or self._requests.take()
            if prepared is None:
                return
            answer = await self._request(connection, prepared, due_ns)
            due_ns = monotonic_ns() + round(backoff.after(answer, datetime.now(UTC)) * 1e9)
            following = self._requests.follow_up(prepared, answer)
            if following is not None:
                due_ns += round(following.think_s * 1e9)

    async def _arrive(self, load: OpenLoad) -> None:
        """Starts each request when it is due; beyond the limit in flight it waits, and its clock runs."""
        places = asyncio.Semaphore(self._slots)
        running: set[asyncio.Task[None]] = set()
        try:
            share = self._share
            for due_s in open_arrivals_s(load, self._plan.seed, share.part, share.parts, self._trace_s):
                due_ns = self._start_ns + round(due_s * 1e9)
                await _sleep_until(due_ns)
                # Arrivals that are all late would else leave no room for anything else, not even for a cancel.
                await asyncio.sleep(0)
                prepared = self._requests.take()
                if prepared is None:
                    break
                task = asyncio.create_task(self._arrival(places, prepared, due_ns))
                running.add(task)
                task.add_done_callback(running.discard)
            await asyncio.gather(*running)
        finally:
            await _cancel(list(running))

    async def _arrival(self, places: asyncio.Semaphore, prepared: Prepared, due_ns: int) -> None:
        """What arrived, and the turns that follow it."""
        following: Prepared | None = prepared
        while following is not None:
            with self._counted(self._in_window(due_ns)):
                await _sleep_until(due_ns)
                answer = await self._in_place(places, following, due_ns)
            # Read after the count, so that a turn due in the window is counted before the window can seem over.
            now_ns = monotonic_ns()
            following = self._requests.follow_up(following, answer)
            if following is not None:
                due_ns = now_ns + round(following.think_s * 1e9)

    async def _in_place(self, places: asyncio.Semaphore, prepared: Prepared, due_ns: int) -> Answer:
        connection = None
        waits = places.locked()
        self.capped += waits
        try:
            async with places:
                connection = self._idle.pop() if self._idle else self._transport.connection()
                answer = await self._request(connection, prepared, due_ns, waits)
                self._idle.append(connection)
                return answer
        except asyncio.CancelledError:
            if connection is None:
                self._record(prepared, Answer(), due_ns, 1, None)
            raise

    async def _request(self, connection: Connection, prepared: Prepared, due_ns: int, waited: bool = False) -> Answer:
        """One request with its retries; the last attempt's answer."""
        backoff = Backoff(self._random, self._plan.backoff_max_s)
        for attempt in range(1, self._plan.retries + 2):
            answer = await self._attempt(connection, prepared, due_ns, attempt, waited)
            if answer.outcome not in _RETRIED or attempt > self._plan.retries:
                break
            await asyncio.sleep(backoff.after(answer, datetime.now(UTC)))
        return answer

    async def _attempt(
        self, connection: Connection, prepared: Prepared, due_ns: int, attempt: int, waited: bool
    ) -> Answer:
        # The text is of use to the next turn, and to count the tokens of an answer whose server does not.
        answer = Answer(keep_text=self._tokens is not None or bool(prepared.later))
        loop = asyncio.get_running_loop()
        waits_for_nothing = connection.connected and attempt == 1 and not waited
        timers: list[asyncio.TimerHandle] = []
        try:
            if not connection.connected:
                await self._ready_in_time(connection)
            timers.append(loop.call_later(self._plan.timeout_s, self._expire, connection, answer))
            if self._plan.stall_s is not None:
                timers.append(loop.call_later(self._plan.stall_s, self._check_stall, connection, answer, timers))
            loop.call_soon(self._requests.refill)
            with self._counted(not self._open and self._may_be_measured(monotonic_ns())):
                self.meter.sending(answer, due_ns if self._open else None)
                await connection.exchange(prepared.request_id, prepared.body, answer)
        except ConnectError as error:
            answer.fail(Outcome.CONNECT_ERROR, str(error), monotonic_ns())
        finally:
            for timer in timers:
                timer.cancel()
            if answer.outcome is None:
                connection.abort()
            own_ns = answer.t_sent_ns if waits_for_nothing and not answer.resent else None
            self._record(prepared, answer, due_ns, attempt, None if own_ns is None else own_ns - due_ns)
        return answer

    async def _ready_in_time(self, connection: Connection) -> None:
        """Raises ConnectError, also when connecting takes longer than a request may."""
        try:
            async with asyncio.timeout(self._plan.timeout_s):
                await connection.ready()
        except TimeoutError:
            raise ConnectError(f"no connection within {self._plan.timeout_s:g} s") from None

    def _expire(self, connection: Connection, answer: Answer) -> None:
        answer.fail(Outcome.TIMEOUT, f"no complete answer within {self._plan.timeout_s:g} s", monotonic_ns())
        connection.abort()

    def _check_stall(self, connection: Connection, answer: Answer, timers: list[asyncio.TimerHandle]) -> None:
        """Ends an answer that began and then fell silent; looks again when the silence could be long enough."""
        assert self._plan.stall_s is not None
        heard_ns = answer.t_heard_ns or monotonic_ns()
        left_s = self._plan.stall_s - (monotonic_ns() - heard_ns) / 1e9
        if left_s <= 0:
            answer.fail(Outcome.TIMEOUT, f"stalled: silent for {self._plan.stall_s:g} s", monotonic_ns())
            connection.abort()
        else:
            loop = asyncio.get_running_loop()
            timers[-1] = loop.call_later(left_s, self._check_stall, connection, answer, timers)

    def _record(
        self,
        prepared: Prepared,
        answer: Answer,
        due_ns: int,
        attempt: int,
        lateness_ns: int | None,
    ) -> None:
        answer.fail(Outcome.CANCELLED, self._end_reason, monotonic_ns())
        self.meter.ended(answer)
        decisive_ns = due_ns if self._open or answer.t_sent_ns is None else answer.t_sent_ns
        self._records.add(
            prepared,
            answer,
            attempt=attempt,
            measured=self._in_window(decisive_ns),
            t_due_ns=due_ns,
            lateness_ns=lateness_ns if self._in_window(decisive_ns) else None,
            error=self._redact(answer.error) if answer.error else None,
        )
        if answer.outcome is Outcome.OK and answer.prompt_tokens:
            self.calibrator.observe(prepared.words, answer.prompt_tokens)

    async def _connect(self, connection: Connection) -> None:
        with contextlib.suppress(ConnectError):
            await connection.ready()

    @contextlib.contextmanager
    def _counted(self, measured: bool) -> Iterator[None]:
        """While inside, one more measured request has not ended."""
        self._cohort_open += measured
        try:
            yield
        finally:
            self._cohort_open -= measured
            if self._cohort_open == 0 and monotonic_ns() >= self._window_end_ns:
                self._cohort_ended.set()


async def _sleep_until(time_ns: int) -> None:
    while (left_ns := time_ns - monotonic_ns()) > 0:
        await asyncio.sleep(left_ns / 1e9)


async def _all(coroutines: list[Coroutine[Any, Any, None]]) -> None:
    async with asyncio.TaskGroup() as group:
        for coroutine in coroutines:
            group.create_task(coroutine)


async def _cancel(tasks: Sequence[asyncio.Task[Any]]) -> None:
    """Cancel and wait; an error that a task ended with is raised."""
    for task in tasks:
        task.cancel()
    for result in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(result, BaseException) and not isinstance(result, asyncio.CancelledError):
            raise result
