"""What has to happen though nobody asks for it: runs of lost workers end, queued runs find their way to a worker."""

from __future__ import annotations

import logging

from django.db import transaction
from kombu.exceptions import ChannelError, OperationalError
from redis.exceptions import RedisError

from campaigns.models import Run, RunState, WorkerHost
from campaigns.models.run import LOST_AFTER_S
from campaigns.services.conduct import leave_stages_partial, record_event
from campaigns.services.enqueue import enqueue, queue_of, quick_connection
from campaigns.services.finish import analyse_run
from campaigns.services.waiting import tell_unserved

log = logging.getLogger(__name__)


def mark_lost_runs() -> list[Run]:
    """End the runs whose worker is silent: cancelled where a person had asked for that, else interrupted."""
    return [run for run in Run.objects.lost().select_related("cancel_requested_by") if _mark_lost(run)]


def start_queued_runs() -> list[Run]:
    """Send the queued runs whose target is free, the oldest of each target, to the workers once more.

    A run whose queue no live worker serves holds up no other: it says so and waits. A queue that still holds messages
    gets none: its workers are busy, and will come to them. So however often this is called, no queue grows beyond the
    runs that wait for it.
    """
    served = WorkerHost.objects.served_queues()
    oldest: dict[int, Run] = {}
    for run in Run.objects.startable().select_related("target"):
        if queue_of(run) in served:
            oldest.setdefault(run.target_id, run)
        else:
            tell_unserved(run)
    return [run for run in oldest.values() if _waiting(queue_of(run)) == 0 and enqueue(run)]


def _mark_lost(run: Run) -> bool:
    silence = f"nothing was heard of the worker {run.worker} for {LOST_AFTER_S:.0f} s"
    state = RunState.INTERRUPTED
    reason = f"Interrupted: {silence}. Resume it to go on from its last whole stage."
    if run.cancel_requested_at is not None:
        name = run.cancel_requested_by.get_username() if run.cancel_requested_by else "a person"
        state, reason = RunState.CANCELLED, f"Cancelled by {name}; {silence}"
    with transaction.atomic():
        # Only if the worker is still silent: it may have come back since the list was read.
        if run.claim is None or not Run.objects.lost().end(run.pk, state, reason, run.claim):
            return False
        leave_stages_partial(run)
        record_event(run, state, reason)
    log.warning("run %s: %s", run.pk, reason)
    if state == RunState.CANCELLED:
        analyse_run(run.pk)
    return True


def _waiting(queue: str) -> int | None:
    """Messages that no worker has taken yet; None when the broker cannot be asked."""
    try:
        with quick_connection() as connection:
            return int(connection.default_channel.queue_declare(queue, passive=True).message_count)
    except ChannelError:
        return 0
    except (OperationalError, RedisError, OSError) as error:
        log.warning("the broker cannot be asked about the queue %s: %s", queue, error)
        return None
