"""Whether a live worker serves a queue, and what to tell people of a run that waits in one that nobody serves."""

from __future__ import annotations

from campaigns.models import Run, RunState, Target, WorkerHost
from campaigns.services.conduct import record_event
from campaigns.services.enqueue import default_queue, queue_of

UNSERVED = "unserved"


def unserved_words(queue: str, change: str) -> str | None:
    """That no worker serves `queue` and what to do, of which `change` is one way; None when a worker serves it."""
    if queue in WorkerHost.objects.served_queues():
        return None
    return f"no worker serves the queue {queue}; start one with `celery -A webapp worker -Q {queue}` or {change}"


def why_waiting(run: Run) -> str | None:
    """Why a queued run will not be started; None when it will, or is not queued."""
    if run.state != RunState.QUEUED:
        return None
    of_campaign = any(run.plan["drivers"])
    return unserved_words(queue_of(run), "launch with another driver" if of_campaign else "change the target's queue")


def why_target_waits(target: Target) -> str | None:
    """The same of runs that would be launched on `target`."""
    return unserved_words(target.queue or default_queue(), "change the target's queue")


def tell_unserved(run: Run) -> None:
    """An event that says so, once for each time that the run is queued."""
    words = why_waiting(run)
    newest = run.events.order_by("-pk").values_list("kind", flat=True).first()
    if words is not None and newest != UNSERVED:
        record_event(run, UNSERVED, f"Not started: {words}", {"queue": queue_of(run)})
