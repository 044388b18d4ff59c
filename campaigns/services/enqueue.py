"""Hands a queued run to the workers. The queue row is the truth: a message that is lost or sent twice changes nothing,
since housekeeping sends it again and a worker has to claim the run."""

from __future__ import annotations

import logging

from kombu.exceptions import OperationalError
from redis.exceptions import RedisError

from campaigns.models import Run
from webapp import celery_app

log = logging.getLogger(__name__)


def enqueue(run: Run) -> bool:
    """Send the run to the queue of its driver, of its target, or the default one; False when no broker is reached."""
    queue = next(iter(run.plan["drivers"]), "") or run.target.queue or celery_app.conf.task_default_queue
    try:
        celery_app.send_task("workers.tasks.run_campaign", args=[run.pk], queue=queue, retry=False, ignore_result=True)
    except (OperationalError, RedisError, OSError) as error:
        log.warning("run %s stays queued, the broker cannot be reached: %s", run.pk, error)
        return False
    return True
