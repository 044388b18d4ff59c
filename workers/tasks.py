"""Celery's entry points: each reads an id and calls the conductor or a service. No task is retried or acknowledged
late: a run's claim and heartbeat in the database say who has it, and housekeeping makes up for whatever was lost.
"""

from __future__ import annotations

import logging
import os
from typing import Any

from celery import Task, shared_task
from celery.signals import worker_init

from campaigns.models import ACTIVE_STATES, Run
from campaigns.services import housekeeping
from workers.conductor import conduct
from workers.driver import remove_left_folders

log = logging.getLogger(__name__)

# How many runs this worker conducts at once: one process of its pool is left for housekeeping.
_places = 1


@worker_init.connect
def count_places(sender: Any, **_: object) -> None:
    global _places
    processes = sender.concurrency if isinstance(sender.concurrency, int) else os.cpu_count() or 1
    _places = max(1, processes - 1)


@worker_init.connect
def tidy(**_: object) -> None:
    remove_left_folders()


@shared_task(bind=True, name="workers.tasks.run_campaign")
def run_campaign(self: Task, run_id: int) -> None:
    worker = self.request.hostname or "worker"
    if Run.objects.filter(worker=worker, state__in=ACTIVE_STATES).count() >= _places:
        log.info("run %s stays queued: %s has %s runs already", run_id, worker, _places)
        return
    conduct(run_id, worker)


@shared_task(name="workers.tasks.mark_lost_runs")
def mark_lost_runs() -> None:
    housekeeping.mark_lost_runs()


@shared_task(name="workers.tasks.start_queued_runs")
def start_queued_runs() -> None:
    housekeeping.start_queued_runs()
