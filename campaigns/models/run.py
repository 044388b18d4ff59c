"""A run and its life. Each transition is one guarded UPDATE, so a task delivered twice does nothing the second time."""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import IntegrityError, models, transaction
from django.db.models.functions import Coalesce
from django.utils import timezone

from campaigns.models.campaign import Campaign
from campaigns.models.plan import RunPlan
from campaigns.models.target import Target

HEARTBEAT_EVERY_S = 2.0
LOST_AFTER_S = 30.0


class RunState(models.TextChoices):
    QUEUED = "queued"
    RUNNING = "running"
    ANALYSING = "analysing"
    DONE = "done"
    CANCELLED = "cancelled"
    ABORTED = "aborted"
    FAILED = "failed"
    INTERRUPTED = "interrupted"


ACTIVE_STATES = (RunState.RUNNING, RunState.ANALYSING)
END_STATES = (RunState.DONE, RunState.CANCELLED, RunState.ABORTED, RunState.FAILED, RunState.INTERRUPTED)

# From which states each state may be reached.
ALLOWED_FROM: dict[RunState, tuple[RunState, ...]] = {
    RunState.RUNNING: (RunState.QUEUED,),
    RunState.ANALYSING: (RunState.RUNNING,),
    RunState.DONE: (RunState.ANALYSING,),
    RunState.CANCELLED: (RunState.QUEUED, RunState.RUNNING, RunState.ANALYSING),
    RunState.ABORTED: (RunState.RUNNING, RunState.ANALYSING),
    RunState.FAILED: (RunState.QUEUED, RunState.RUNNING, RunState.ANALYSING),
    RunState.INTERRUPTED: (RunState.RUNNING, RunState.ANALYSING),
    RunState.QUEUED: (RunState.INTERRUPTED,),
}


class RunQuerySet(models.QuerySet["Run"]):
    def claim(self, run_id: int, worker: str) -> uuid.UUID | None:
        """Take a queued run for `worker`: the fencing claim, or null when another has it, it is no longer queued, a
        person asked to stop it, or its target is busy (a unique index refuses a second active run on a target)."""
        claim = uuid.uuid4()
        now = timezone.now()
        try:
            with transaction.atomic():
                taken = self.filter(pk=run_id, state=RunState.QUEUED, cancel_requested_at=None).update(
                    state=RunState.RUNNING,
                    claim=claim,
                    worker=worker,
                    heartbeat_at=now,
                    started_at=Coalesce("started_at", now, output_field=models.DateTimeField()),
                )
        except IntegrityError:
            return None
        return claim if taken else None

    def beat(self, run_id: int, claim: uuid.UUID) -> bool:
        """Say that the run is alive; False when it was taken away (marked interrupted, or claimed again)."""
        return bool(self.filter(pk=run_id, claim=claim, state__in=ACTIVE_STATES).update(heartbeat_at=timezone.now()))

    def advance(self, run_id: int, claim: uuid.UUID, state: RunState) -> bool:
        """Move a claimed run to the active state `state`; False when the claim or the state no longer holds."""
        return bool(self.filter(pk=run_id, claim=claim, state__in=ALLOWED_FROM[state]).update(state=state))

    def end(self, run_id: int, state: RunState, reason: str, claim: uuid.UUID | None = None) -> bool:
        """End a run with a reason in words; with `claim`, only if that claim still holds it."""
        if state not in END_STATES:
            raise ValueError(f"{state} does not end a run")
        if not reason:
            raise ValueError("a run ends with a reason")
        runs = self.filter(pk=run_id, state__in=ALLOWED_FROM[state])
        if claim is not None:
            runs = runs.filter(claim=claim)
        return bool(runs.update(state=state, end_reason=reason, ended_at=timezone.now(), claim=None))

    def requeue(self, run_id: int) -> bool:
        """Put an interrupted run back into the queue, to go on from its last whole stage."""
        return bool(
            self.filter(pk=run_id, state=RunState.INTERRUPTED).update(
                state=RunState.QUEUED,
                end_reason="",
                ended_at=None,
                claim=None,
                worker="",
                cancel_requested_at=None,
            )
        )

    def lost(self) -> RunQuerySet:
        """Active runs whose worker has not been heard of for `LOST_AFTER_S`."""
        return self.filter(state__in=ACTIVE_STATES, heartbeat_at__lt=timezone.now() - timedelta(seconds=LOST_AFTER_S))

    def startable(self) -> RunQuerySet:
        """Queued runs whose target is free, the oldest first."""
        busy = self.model.objects.filter(state__in=ACTIVE_STATES, target=models.OuterRef("target"))
        return self.filter(~models.Exists(busy), state=RunState.QUEUED, cancel_requested_at=None).order_by("id")


class Run(models.Model):
    campaign = models.ForeignKey(Campaign, models.PROTECT, related_name="runs")
    target = models.ForeignKey(Target, models.PROTECT, related_name="runs")
    label = models.CharField(max_length=120, blank=True)
    notes = models.TextField(blank=True, max_length=10_000)
    deployment = models.JSONField(default=dict, blank=True)
    plan = models.JSONField(help_text="RunPlan: the frozen copy of everything this run depends on.")
    state = models.CharField(max_length=12, choices=RunState, default=RunState.QUEUED, db_index=True)
    end_reason = models.TextField(blank=True)
    # What the run's own preflight saw: {ok, checks, detected}; `simulated` follows from it and marks every page.
    preflight = models.JSONField(null=True, blank=True)
    simulated = models.BooleanField(default=False)
    claim = models.UUIDField(null=True, blank=True, editable=False)
    worker = models.CharField(max_length=200, blank=True)
    heartbeat_at = models.DateTimeField(null=True, blank=True)
    cancel_requested_at = models.DateTimeField(null=True, blank=True)
    cancel_requested_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+")
    # A key that the caller chose: the same launch sent twice is one run.
    idempotency_key = models.CharField(max_length=100, null=True, blank=True)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)
    started_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)

    objects = RunQuerySet.as_manager()

    class Meta:
        ordering = ["-id"]
        indexes = [models.Index(fields=["target", "-id"]), models.Index(fields=["campaign", "-id"])]
        constraints = [
            models.CheckConstraint(condition=models.Q(state__in=RunState.values), name="run_state_known"),
            models.CheckConstraint(
                condition=models.Q(state__in=END_STATES, ended_at__isnull=False) & ~models.Q(end_reason="")
                | models.Q(ended_at=None, end_reason="") & ~models.Q(state__in=END_STATES),
                name="run_end_has_time_and_reason",
            ),
            models.CheckConstraint(
                condition=~models.Q(state__in=ACTIVE_STATES)
                | models.Q(claim__isnull=False, started_at__isnull=False, heartbeat_at__isnull=False),
                name="run_active_is_claimed",
            ),
            models.UniqueConstraint(
                fields=["target"], condition=models.Q(state__in=ACTIVE_STATES), name="run_one_active_a_target"
            ),
            models.UniqueConstraint(
                fields=["campaign", "idempotency_key"],
                condition=models.Q(idempotency_key__isnull=False),
                name="run_launch_is_idempotent",
            ),
        ]

    def __str__(self) -> str:
        return f"run {self.pk} of {self.campaign}"

    @property
    def frozen_plan(self) -> RunPlan:
        return RunPlan.from_dict(self.plan)

    @property
    def is_over(self) -> bool:
        return self.state in END_STATES


class RunEvent(models.Model):
    """What happened, in order (by id), for the live page and for programs that follow along."""

    run = models.ForeignKey(Run, models.CASCADE, related_name="events")
    at = models.DateTimeField(auto_now_add=True)
    kind = models.CharField(max_length=40)
    message = models.TextField()
    data: Any = models.JSONField(default=dict)

    class Meta:
        ordering = ["id"]
        indexes = [models.Index(fields=["run", "id"])]

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}"
