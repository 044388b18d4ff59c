"""Follows the CPU time and memory of a process and all its descendants, also of those that end meanwhile."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field

import numpy as np
import psutil


@dataclass(slots=True)
class TreeSampler:
    """Samples until `stop`: (monotonic ns, CPU seconds of all so far), and the largest total of resident bytes."""

    pid: int
    # Each sample walks all processes of the machine, for some milliseconds.
    every_s: float = 0.25
    samples: list[tuple[int, float]] = field(default_factory=list)
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

    def cpu_s_between(self, start_ns: float, end_ns: float) -> float:
        times, seconds = np.array(self.samples).T
        start_s, end_s = np.interp([start_ns, end_ns], times, seconds)
        return float(end_s - start_s)

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
            self.samples.append((time.monotonic_ns(), sum(self._cpu_s.values())))
            self.peak_bytes = max(self.peak_bytes, resident)
