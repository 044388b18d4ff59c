"""Puts an interrupted run back into the queue, to go on from its last whole stage."""

from __future__ import annotations

from functools import partial

from django.contrib.auth.models import AbstractBaseUser
from django.db import transaction

from campaigns.models import Run, RunEvent, RunState
from campaigns.services.enqueue import enqueue
from campaigns.services.errors import Conflict
from campaigns.services.waiting import tell_unserved


@transaction.atomic
def resume_run(run: Run, user: AbstractBaseUser) -> Run:
    """Raises Conflict when the run was not interrupted, or its target is no longer the one it started on."""
    run = Run.objects.select_for_update(of=("self",)).select_related("target").get(pk=run.pk)
    if run.state != RunState.INTERRUPTED:
        raise Conflict(f"Only an interrupted run can be resumed; run {run.pk} is {run.get_state_display().lower()}")
    if run.target.archived_at is not None:
        raise Conflict(f"The target {run.target.name} is archived, so run {run.pk} cannot go on")
    if run.target.base_url != run.frozen_plan.target.base_url:
        raise Conflict(f"The address of {run.target.name} has changed since run {run.pk} began; launch a new run")
    Run.objects.requeue(run.pk)
    RunEvent.objects.create(run=run, kind="queued", message=f"Resumed by {user.get_username()}")
    run.refresh_from_db()
    tell_unserved(run)
    transaction.on_commit(partial(enqueue, run))
    return run
