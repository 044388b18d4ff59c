"""The children of `manage.py up`: started, watched, restarted when they fall, and ended together."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from webapp.up.errors import UpError, tail

STOP_LIMIT_S = 15.0
# So many falls within so many seconds are no bad luck.
FALLS_MAX, FALLS_WITHIN_S = 3, 60.0
# What a killed server leaves (its helpers, its locks) is gone by then.
RESTART_AFTER_S = 1.0
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None) if sys.platform == "linux" else None


def _end_with_parent(number: int) -> None:
    """Runs in the child: ask the kernel (Linux) for this signal when `up` is gone, even killed."""
    if _libc is not None:
        _libc.prctl(_PR_SET_PDEATHSIG, number)


@dataclass(slots=True)
class Child:
    """One program in a session of its own, so that Ctrl-C at the terminal reaches `up` alone. `is_server`: the others
    need it, so that it ends after them."""

    name: str
    command: Sequence[str]
    log: Path
    environment: Mapping[str, str]
    user: str | None = None
    stop_signal: int = signal.SIGTERM
    is_server: bool = False
    process: subprocess.Popen[bytes] | None = None
    fell_at: float | None = None
    falls: deque[float] = field(default_factory=lambda: deque(maxlen=FALLS_MAX))

    def start(self) -> None:
        with self.log.open("ab") as out:
            self.process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env=dict(self.environment),
                start_new_session=True,
                preexec_fn=partial(_end_with_parent, self.stop_signal),
                user=self.user,
                group=self.user,
                extra_groups=None if self.user is None else (),
            )

    def fallen(self) -> bool:
        return self.process is not None and self.process.poll() is not None

    def signal(self, number: int, group: bool = False) -> None:
        if self.process is None or self.process.poll() is not None:
            return
        if group:
            os.killpg(self.process.pid, number)
        else:
            self.process.send_signal(number)


class Children:
    """Ended in the reverse order of their start, the servers last."""

    def __init__(self, logs: Path, environment: Mapping[str, str]) -> None:
        self._logs = logs
        self.environment = dict(environment)
        self._children: list[Child] = []

    def start(self, name: str, command: Sequence[str], **options: Any) -> Child:
        """`options`: further fields of the `Child`."""
        child = Child(name, command, self._logs / f"{name}.log", self.environment, **options)
        self._children.append(child)
        child.start()
        return child

    def check(self) -> None:
        """Start again what has fallen, a moment later. Raises UpError for a child that keeps falling."""
        now = time.monotonic()
        for child in self._children:
            if not child.fallen():
                continue
            if child.fell_at is None:
                child.fell_at = now
                child.falls.append(now)
                if len(child.falls) == FALLS_MAX and child.falls[-1] - child.falls[0] < FALLS_WITHIN_S:
                    raise UpError(f"The {child.name} keeps falling. Its log, {child.log}, ends with:{tail(child.log)}")
                print(f"  ! the {child.name} ended unexpectedly and is started again; see {child.log}", flush=True)
            elif now - child.fell_at > RESTART_AFTER_S:
                child.fell_at = None
                child.start()

    def stop(self, limit_s: float = STOP_LIMIT_S) -> None:
        """Ask every child to end, then insist; none is left afterwards."""
        for are_servers in (False, True):
            self._stop([child for child in reversed(self._children) if child.is_server is are_servers], limit_s)
        self._children.clear()

    def _stop(self, children: Sequence[Child], limit_s: float) -> None:
        for child in children:
            child.signal(child.stop_signal)
        deadline = time.monotonic() + limit_s
        for child in children:
            if child.process is None:
                continue
            try:
                child.process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                child.signal(signal.SIGKILL, group=True)
                child.process.wait()
