"""Watches the sockets of many lines at once, and reads under load in rounds instead of one wake-up an event.

A round costs one system call for all lines that are ready. It may come a little later because what it reads carries the
kernel's receive time; how much later is counted: that is this process's own delay.
"""

from __future__ import annotations

import asyncio
import select
import struct
from time import monotonic_ns, time_ns
from typing import Protocol

from workers.loadgen.transport import Receiving

# With fewer lines ready than this a wake-up each is cheap; with more, the next round waits for others to join it.
_ROUND_MIN = 3
_ROUND_PAUSE_S = 0.001
_READY_MAX = 512
_TIMESPEC = struct.Struct("@qq").unpack_from
# A stamp further from now than this is not believed: the wall clock was set in between.
_PAST_NS = 60_000_000_000
_FUTURE_NS = 1_000_000_000
# The two clocks are read within this time of each other, unless the process is interrupted each time.
_TOGETHER_NS = 5_000
_READINGS_MAX = 5
# Between two rounds the clocks drift apart by far less.
_SET_NS = 1_000_000
# Delays are counted in steps of 10 µs; the last step holds all that are longer.
_DELAY_STEP_NS = 10_000
_DELAY_STEPS = 10_000


class Watched(Protocol):
    def readable(self) -> None: ...

    def writable(self) -> None: ...

    def broken(self, error: Exception) -> None: ...


class Poller:
    """Of one event loop. A read to which the kernel gave no believable time has the time of its round."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._delays = [0] * (_DELAY_STEPS + 1)
        self._longest_ns = 0
        self._unstamped = 0
        self._loop = loop
        self._epoll = select.epoll()
        self._lines: dict[int, Watched] = {}
        self._wall_ns = 0
        self._ahead_ns = 0
        self._set_meanwhile = False
        loop.add_reader(self._epoll.fileno(), self._woken)

    def add(self, descriptor: int, line: Watched) -> None:
        self._lines[descriptor] = line
        self._epoll.register(descriptor, select.EPOLLIN)

    def watch(self, descriptor: int, *, writing: bool) -> None:
        self._epoll.modify(descriptor, select.EPOLLIN | (select.EPOLLOUT if writing else 0))

    def remove(self, descriptor: int) -> None:
        del self._lines[descriptor]
        self._epoll.unregister(descriptor)

    def stamp_ns(self, control: list[tuple[int, int, bytes]]) -> int:
        """The monotonic time of the stamp in a read's control data, which is wall time; the round's without one."""
        if control and not self._set_meanwhile:
            seconds, nanoseconds = _TIMESPEC(control[0][2])
            wall_ns: int = seconds * 1_000_000_000 + nanoseconds
            delay_ns = self._wall_ns - wall_ns
            if -_FUTURE_NS < delay_ns < _PAST_NS:
                if delay_ns < 0:
                    delay_ns = 0  # it came since this round began
                elif delay_ns > self._longest_ns:
                    self._longest_ns = delay_ns
                step = delay_ns // _DELAY_STEP_NS
                self._delays[step if step < _DELAY_STEPS else _DELAY_STEPS] += 1
                return wall_ns - self._ahead_ns
        self._unstamped += 1
        return self._wall_ns - self._ahead_ns

    def receiving(self) -> Receiving:
        """Counted since the last call."""
        counts = {step: count for step, count in enumerate(self._delays) if count}
        receiving = Receiving(_DELAY_STEP_NS, counts, self._longest_ns, self._unstamped)
        self._delays = [0] * (_DELAY_STEPS + 1)
        self._longest_ns = self._unstamped = 0
        return receiving

    def _woken(self) -> None:
        if self._round() >= _ROUND_MIN:
            self._loop.remove_reader(self._epoll.fileno())
            self._loop.call_later(_ROUND_PAUSE_S, self._again)

    def _again(self) -> None:
        if self._round() >= _ROUND_MIN:
            self._loop.call_later(_ROUND_PAUSE_S, self._again)
        else:
            self._loop.add_reader(self._epoll.fileno(), self._woken)

    def _round(self) -> int:
        """How many lines were ready."""
        ready = self._epoll.poll(0, _READY_MAX)
        self._read_clocks()
        lines = self._lines
        for descriptor, event in ready:
            line = lines.get(descriptor)
            if line is None:
                continue
            try:
                if event & select.EPOLLOUT:
                    line.writable()
                if event & ~select.EPOLLOUT:
                    line.readable()
            except Exception as error:
                # One line's answer must never end the reading of all others.
                line.broken(error)
        return len(ready)

    def _read_clocks(self) -> None:
        taken_ns, ahead_ns, self._wall_ns = _both_clocks()
        if taken_ns > _TOGETHER_NS:
            # This process was interrupted between the two: the quickest of a few readings, or else what was known.
            taken_ns, ahead_ns, self._wall_ns = min(_both_clocks() for _ in range(_READINGS_MAX))
        # A clock that was set since the last round stamped, before that, what is read in this one.
        self._set_meanwhile = self._ahead_ns != 0 and abs(ahead_ns - self._ahead_ns) > _SET_NS + taken_ns
        if self._set_meanwhile or self._ahead_ns == 0 or taken_ns <= _TOGETHER_NS:
            self._ahead_ns = ahead_ns


def _both_clocks() -> tuple[int, int, int]:
    """How long reading both took; wall time minus monotonic time, right to half of that; and the wall time."""
    before_ns = monotonic_ns()
    wall_ns = time_ns()
    taken_ns = monotonic_ns() - before_ns
    return taken_ns, wall_ns - before_ns - taken_ns // 2, wall_ns
