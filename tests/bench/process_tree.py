"""Follows the CPU time and memory of a process and all its descendants, and what else its cores were busy with."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import psutil


@dataclass(slots=True)
class TreeSampler:
    """Samples until `stop`: (monotonic ns, CPU seconds of the tree, CPU seconds of all programs on `cores`).

    A process that ended keeps what it had used when it was last seen. `peak_bytes`: the most that was resident.
    """

    pid: int
    cores: Sequence[int]
    # Each sample walks all processes of the machine, for some milliseconds.
    every_s: float = 0.25
    samples: list[tuple[int, float, float]] = field(default_factory=list)
    peak_bytes: int = 0
    _cpu_s: dict[tuple[int, float], float] = field(default_factory=dict)
    _done: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._done.set()
        if self._thread is not None:
            self._thread.join()

    def cpu_s_between(self, start_ns: float, end_ns: float) -> tuple[float, float]:
        """Of the tree, and of other programs on its cores."""
        times, *columns = np.array(self.samples).T
        own_s, all_s = (float(np.ptp(np.interp([start_ns, end_ns], times, column))) for column in columns)
        return own_s, max(0.0, all_s - own_s)

    def _follow(self) -> None:
        while not self._done.wait(self.every_s):
            resident = 0
            try:
                root = psutil.Process(self.pid)
                tree = [root, *root.children(recursive=True)]
            except psutil.NoSuchProcess:
                break
            for process in tree:
                try:
                    used = process.cpu_times()
                    self._cpu_s[process.pid, process.create_time()] = used.user + used.system
                    resident += process.memory_info().rss
                except psutil.NoSuchProcess:
                    continue
            self.samples.append((time.monotonic_ns(), sum(self._cpu_s.values()), self._busy_s()))
            self.peak_bytes = max(self.peak_bytes, resident)

    def _busy_s(self) -> float:
        """Without interrupts, which serve the client too."""
        of_each = psutil.cpu_times(percpu=True)
        return sum(of_each[core].user + of_each[core].nice + of_each[core].system for core in self.cores)
