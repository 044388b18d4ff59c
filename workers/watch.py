"""Keeps a claimed run's heartbeat going and notices when the run must stop. It runs beside the conductor in a thread
of its own, so that neither a stage nor the analysis delays either of them; it decides nothing about the run.
"""

from __future__ import annotations

import logging
import threading
import time
from enum import Enum
from types import TracebackType

from django.db import DatabaseError, InterfaceError, connection

from campaigns.models import Run
from campaigns.models.run import HEARTBEAT_EVERY_S, LOST_AFTER_S
from campaigns.services.conduct import Hold
from workers import shutdown

log = logging.getLogger(__name__)

# A request to stop has to act within 2 s: half a second to notice it leaves time to end the generator.
LOOK_EVERY_S = 0.5


class Stop(Enum):
    CANCELLED = "a person asked for it"
    WORKER_STOPPING = "the worker is shutting down"
    CLAIM_LOST = "another worker may have the run"


class Watch:
    """`with Watch(hold) as watch:` the run is kept alive, and `watch.stop` says why to stop (None: go on)."""

    def __init__(self, hold: Hold) -> None:
        self._hold = hold
        self._stop: Stop | None = None
        self._wake = threading.Event()
        self._over = threading.Event()
        self._beat_at = time.monotonic()
        self._thread = threading.Thread(target=self._run, name=f"watch of run {hold.run_id}", daemon=True)

    @property
    def stop(self) -> Stop | None:
        return self._stop

    def should_stop(self) -> bool:
        return self._stop is not None

    def wait(self, seconds: float) -> Stop | None:
        """Sleep for `seconds`, or until the run must stop."""
        self._wake.wait(seconds)
        return self._stop

    def __enter__(self) -> Watch:
        self._look()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            while not self._over.wait(LOOK_EVERY_S):
                try:
                    self._look()
                except (DatabaseError, InterfaceError) as error:
                    log.warning("run %s: the database does not answer: %s", self._hold.run_id, error)
                    connection.close()
                    # By now others take this worker for dead, and may have given the run to another one.
                    if time.monotonic() - self._beat_at > LOST_AFTER_S:
                        self._say(Stop.CLAIM_LOST)
        finally:
            connection.close()

    def _look(self) -> None:
        hold = self._hold
        if shutdown.is_stopping():
            self._say(Stop.WORKER_STOPPING)
        now = time.monotonic()
        if now - self._beat_at >= HEARTBEAT_EVERY_S:
            if not Run.objects.beat(hold.run_id, hold.claim):
                self._say(Stop.CLAIM_LOST)
            self._beat_at = now
        asked = Run.objects.filter(pk=hold.run_id, claim=hold.claim).values_list("cancel_requested_at").first()
        if asked is None:
            self._say(Stop.CLAIM_LOST)
        elif asked[0] is not None:
            self._say(Stop.CANCELLED)

    def _say(self, stop: Stop) -> None:
        """The first reason stands, except that a lost claim outdoes all: then nothing may be written any more."""
        if self._stop is None or stop is Stop.CLAIM_LOST:
            self._stop = stop
        self._wake.set()
