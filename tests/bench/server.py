"""Compiles and runs the ground-truth server, and reads what it says that it sent."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Times: TypeAlias = NDArray[np.int64]
SOURCE = Path(__file__).with_name("sse_server.c")
TTFT_MS = 100.0
ITL_MS = 20.0
ID_WORDS = 5
# In memory where there is such a file system: writing pages back to a disk stops the server for milliseconds.
_MEMORY = Path("/dev/shm")


class NoCompiler(Exception):
    """There is no C compiler; the message says what to install."""


@dataclass(frozen=True, slots=True)
class Truth:
    """What the server did with each request, in the order in which they came; times are monotonic ns.

    `sent_ns` holds each request's tokens; 0 where one was not sent. `request_ids`: X-Request-Id, "" where none came.
    """

    request_ids: list[str]
    received_ns: Times
    sent_ns: list[Times]

    @property
    def ttft_ms(self) -> NDArray[np.float64]:
        """NaN where nothing was sent."""
        first_ns = np.array([times[0] for times in self.sent_ns], np.float64)
        return np.where(first_ns > 0, first_ns - self.received_ns, np.nan) / 1e6

    @property
    def tpot_ms(self) -> NDArray[np.float64]:
        """NaN for less than two tokens, and where the last was not sent."""
        paces = [(times[-1] - times[0]) / (len(times) - 1) if len(times) > 1 else np.nan for times in self.sent_ns]
        return np.where(self._complete, np.array(paces, np.float64), np.nan) / 1e6

    def tokens_between(self, start_ns: float, end_ns: float) -> int:
        sent = np.concatenate(self.sent_ns)
        return int(((sent >= start_ns) & (sent < end_ns)).sum())

    def in_flight(self, start_ns: float, end_ns: float) -> float:
        """Mean number of requests between their arrival and their last token."""
        ended_ns = np.where(self._complete, [times[-1] for times in self.sent_ns], end_ns)
        shared = np.minimum(ended_ns, end_ns) - np.maximum(self.received_ns, start_ns)
        return float(np.clip(shared, 0, None).sum() / (end_ns - start_ns))

    @property
    def _complete(self) -> NDArray[np.bool_]:
        return np.array([times[-1] > 0 for times in self.sent_ns], bool)


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

    def __init__(self, program: Path, core: int | None, batch: int = 0) -> None:
        number, name = tempfile.mkstemp(".truth", dir=_MEMORY if _MEMORY.is_dir() else None)
        os.close(number)
        self._log = Path(name)
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port: int = free.getsockname()[1]
        schedule = [str(round(TTFT_MS * 1000)), str(round(ITL_MS * 1000)), "100", str(batch)]
        self._process = subprocess.Popen(
            [program, str(self.port), self._log, *schedule],
            preexec_fn=lambda: _go_first(core),
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
        """After the context; removes the log."""
        words = np.fromfile(self._log, np.uint64, int(np.fromfile(self._log, np.uint64, 1)[0]) // 8).astype(np.int64)
        self._log.unlink()
        ids: list[str] = []
        received, sent = [], []
        place = 1
        while place < len(words):
            ids.append(words[place : place + ID_WORDS].tobytes().rstrip(b"\0").decode("latin-1"))
            received_ns, count = words[place + ID_WORDS : place + ID_WORDS + 2]
            place += ID_WORDS + 2 + int(count)
            received.append(received_ns)
            sent.append(words[place - int(count) : place])
        return Truth(ids, np.array(received, np.int64), sent)


def _go_first(core: int | None) -> None:
    if core is not None:
        os.sched_setaffinity(0, {core})
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, -10)
