"""Hands a queued run to the workers. The run's row is the truth: a message that is lost or sent twice changes nothing,
since housekeeping sends it again and a worker has to claim the run."""

from __future__ import annotations

import logging

from celery import current_app as celery_app
from kombu.connection import Connection
from kombu.exceptions import OperationalError
from redis.exceptions import RedisError

from campaigns.models import Run

log = logging.getLogger(__name__)

# A person waits for the answer: one quick try, where Celery's own default would go on for seconds.
_QUICK = {"max_retries": 0, "interval_start": 0, "socket_connect_timeout": 2, "socket_timeout": 5}


def queue_of(run: Run) -> str:
    """The queue of its driver, of its target, or the default one."""
    return next(iter(run.plan["drivers"]), "") or run.target.queue or default_queue()


def default_queue() -> str:
    return str(celery_app.conf.task_default_queue)


def quick_connection() -> Connection:
    """To the broker; one that is away is found out at once."""
    options = {**celery_app.conf.broker_transport_options, **_QUICK}
    connection: Connection = celery_app.connection_for_write(transport_options=options)
    return connection


def enqueue(run: Run) -> bool:
    """Send the run to its queue; False when no broker is reached."""
    try:
        with quick_connection() as connection:
            celery_app.send_task(
                "workers.tasks.run_campaign", args=[run.pk], queue=queue_of(run), connection=connection, retry=False
            )
    except (OperationalError, RedisError, OSError) as error:
        log.warning("run %s stays queued, the broker cannot be reached: %s", run.pk, error)
        return False
    return True
