"""Writes events to standard output, one JSON object a line, from a thread: a slow reader must not stop the load."""

from __future__ import annotations

import os
import queue
import sys
import threading
from typing import Any

import msgspec


class EventWriter:
    """`put` never waits and never fails; a reader that has gone away is no error."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._write, name="events", daemon=True)
        self._thread.start()

    def put(self, event: Any) -> None:
        self._queue.put(msgspec.json.encode(event) + b"\n")

    def close(self, limit_s: float = 0.5) -> None:
        """Write what is left, for at most `limit_s`."""
        self._queue.put(None)
        self._thread.join(limit_s)

    def _write(self) -> None:
        descriptor = sys.stdout.fileno()
        while (line := self._queue.get()) is not None:
            try:
                while line:
                    line = line[os.write(descriptor, line) :]
            except OSError:
                return
