"""Asks a run to stop. The request is kept in the database, where the conductor reads it; a queued run ends at once."""

from __future__ import annotations

from django.contrib.auth.models import AbstractBaseUser
from django.db import transaction
from django.utils import timezone

from campaigns.models import Run, RunEvent, RunState
from campaigns.services.errors import Conflict


@transaction.atomic
def cancel_run(run: Run, user: AbstractBaseUser) -> Run:
    """The first request counts, more of them change nothing. Raises Conflict when the run is over."""
    run = Run.objects.select_for_update().get(pk=run.pk)
    if run.is_over:
        raise Conflict(f"Run {run.pk} is already over ({run.get_state_display().lower()}): {run.end_reason}")
    if run.cancel_requested_at is not None:
        return run
    run.cancel_requested_at = timezone.now()
    run.cancel_requested_by_id = user.pk
    run.save(update_fields=["cancel_requested_at", "cancel_requested_by"])
    RunEvent.objects.create(run=run, kind="cancel_requested", message=f"{user.get_username()} asked to stop the run")
    if run.state == RunState.QUEUED:
        reason = f"Cancelled by {user.get_username()} before it started"
        Run.objects.end(run.pk, RunState.CANCELLED, reason)
        RunEvent.objects.create(run=run, kind="cancelled", message=reason)
        run.refresh_from_db()
    return run
