"""Watches the generator itself during the window: how late its event loop runs and how much CPU the process takes."""

from __future__ import annotations

import asyncio
import time
from array import array

_EVERY_S = 0.02


class Gauge:
    """`lags_ns`: how late a timer fired, sampled 50 times a second. `cpu_share`: of one core; null before `stop`."""

    def __init__(self) -> None:
        self.lags_ns = array("q")
        self.cpu_share: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._started: tuple[int, int] | None = None

    def start(self) -> None:
        self._started = (time.monotonic_ns(), time.process_time_ns())
        self._wait()

    def stop(self) -> None:
        """Harmless when it was never started or is stopped already."""
        if self._timer is None or self._started is None:
            return
        self._timer.cancel()
        self._timer = None
        wall_ns = time.monotonic_ns() - self._started[0]
        self.cpu_share = (time.process_time_ns() - self._started[1]) / wall_ns if wall_ns else None

    def _wait(self) -> None:
        due_ns = time.monotonic_ns() + round(_EVERY_S * 1e9)
        self._timer = asyncio.get_running_loop().call_later(_EVERY_S, self._note, due_ns)

    def _note(self, due_ns: int) -> None:
        self.lags_ns.append(max(0, time.monotonic_ns() - due_ns))
        self._wait()
