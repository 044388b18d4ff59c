"""Compiles and runs the ground-truth server, and reads what it says that it sent."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import numpy as np
from numpy.typing import NDArray

SOURCE = Path(__file__).with_name("sse_server.c")
TTFT_MS = 100.0
ITL_MS = 20.0


class NoCompiler(Exception):
    """There is no C compiler; the message says what to install."""


@dataclass(frozen=True, slots=True)
class Truth:
    """What the server did, all times monotonic ns. `sent_ns` holds every token's time, in the order of time."""

    received_ns: NDArray[np.uint64]
    first_sent_ns: NDArray[np.uint64]
    sent_ns: NDArray[np.uint64]

    @property
    def ttft_late_ms(self) -> float:
        """How late the server itself sent first tokens (p99): no client can be measured better than that."""
        late = (self.first_sent_ns - self.received_ns).astype(float) / 1e6 - TTFT_MS
        return float(np.percentile(late, 99)) if len(late) else float("nan")

    def tokens_between(self, start_ns: float, end_ns: float) -> int:
        return int(np.searchsorted(self.sent_ns, end_ns) - np.searchsorted(self.sent_ns, start_ns))


def compiled(directory: Path) -> Path:
    """Raises NoCompiler."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise NoCompiler("the benchmark's server needs a C compiler: install gcc")
    program = directory / "sse_server"
    subprocess.run([compiler, "-O2", "-o", program, SOURCE], check=True)
    return program


class TruthServer:
    """Runs on `core` while the context is open; afterwards `truth()` is what it did.

    With `batch` it floods: so many tokens at once, without a schedule.
    """

    def __init__(self, program: Path, log: Path, core: int | None, batch: int = 0) -> None:
        self._log = log
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port: int = free.getsockname()[1]
        schedule = [str(round(TTFT_MS * 1000)), str(round(ITL_MS * 1000)), "100", str(batch)]
        self._process = subprocess.Popen(
            [program, str(self.port), log, *schedule],
            preexec_fn=None if core is None else lambda: os.sched_setaffinity(0, {core}),
        )

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> TruthServer:
        deadline = time.monotonic() + 10
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return self
            except OSError:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    raise
                time.sleep(0.02)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._process.terminate()
        self._process.wait(10)

    def truth(self) -> Truth:
        words = np.fromfile(self._log, np.uint64)
        received, first, parts = [], [], []
        place = 0
        while place < len(words):
            count = int(words[place + 1])
            received.append(words[place])
            first.append(words[place + 2])
            parts.append(words[place + 2 : place + 2 + count])
            place += 2 + count
        sent = np.sort(np.concatenate(parts)) if parts else np.zeros(0, np.uint64)
        return Truth(np.array(received, np.uint64), np.array(first, np.uint64), sent)
