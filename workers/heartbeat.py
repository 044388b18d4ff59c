"""A worker's sign of life: a thread in its main process, so that busy pool processes do not silence it."""

from __future__ import annotations

import logging
import socket
import threading
from typing import Any

from celery.signals import worker_ready, worker_shutdown
from django.db import Error as DatabaseError
from django.db import connection
from django.utils import timezone

from campaigns.models import WorkerHost
from webapp.version import __version__

log = logging.getLogger(__name__)

EVERY_S = 5.0
_stopped = threading.Event()


@worker_ready.connect
def start(sender: Any, **_: object) -> None:
    queues = sorted(sender.task_consumer.queues, key=lambda queue: queue.name)
    names = [queue.name for queue in queues]
    threading.Thread(target=_beat, args=(sender.hostname, names), name="heartbeat", daemon=True).start()


@worker_shutdown.connect
def stop(**_: object) -> None:
    _stopped.set()


def _beat(name: str, queues: list[str]) -> None:
    started_at = timezone.now()
    while not _stopped.is_set():
        try:
            write(name, queues, started_at)
        except DatabaseError:
            log.warning("the database does not take this worker's sign of life", exc_info=True)
            connection.close()
        _stopped.wait(EVERY_S)
    connection.close()


def write(name: str, queues: list[str], started_at: Any) -> None:
    """One sign of life."""
    WorkerHost.objects.update_or_create(
        name=name,
        defaults={
            "hostname": socket.gethostname(),
            "queues": queues,
            "version": __version__,
            "started_at": started_at,
            "heartbeat_at": timezone.now(),
        },
    )
