"""One stage of a run, whole or partial, and the results of stages and runs. Pages read results from here only."""

from __future__ import annotations

from django.db import models

from campaigns.models.run import Run


class StageKind(models.TextChoices):
    BASELINE = "baseline"
    LADDER = "ladder"
    REFINE = "refine"
    CLOSING = "closing"


class StageState(models.TextChoices):
    RUNNING = "running"
    DONE = "done"
    PARTIAL = "partial"


class StageQuerySet(models.QuerySet["Stage"]):
    def whole(self) -> StageQuerySet:
        """Stages that may enter a result: half a stage never does."""
        return self.filter(state=StageState.DONE)


class Stage(models.Model):
    run = models.ForeignKey(Run, models.CASCADE, related_name="stages")
    index = models.PositiveIntegerField(help_text="Order of execution within the run, from 0.")
    kind = models.CharField(max_length=10, choices=StageKind)
    concurrency = models.PositiveIntegerField()
    warmup_s = models.FloatField()
    measure_s = models.FloatField()
    state = models.CharField(max_length=10, choices=StageState, default=StageState.RUNNING)
    started_at = models.DateTimeField(auto_now_add=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    # The load generator's summary; null until the stage is whole (a partial one may have one too).
    summary = models.JSONField(null=True, blank=True)
    # The analysis: {valid, invalid_reasons, checks, within, degradation}; null until analysed.
    result = models.JSONField(null=True, blank=True)

    objects = StageQuerySet.as_manager()

    class Meta:
        ordering = ["run", "index"]
        constraints = [
            models.UniqueConstraint(fields=["run", "index"], name="stage_once_a_place"),
            models.CheckConstraint(condition=models.Q(kind__in=StageKind.values), name="stage_kind_known"),
            models.CheckConstraint(condition=models.Q(state__in=StageState.values), name="stage_state_known"),
            models.CheckConstraint(condition=models.Q(concurrency__gte=1), name="stage_has_users"),
            models.CheckConstraint(
                condition=~models.Q(state=StageState.DONE) | models.Q(summary__isnull=False, ended_at__isnull=False),
                name="stage_whole_has_summary",
            ),
            models.UniqueConstraint(
                fields=["run"], condition=models.Q(state=StageState.RUNNING), name="stage_one_running_a_run"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} at {self.concurrency} of run {self.run_id}"


class RunResult(models.Model):
    """The verdict of a run. `document` is the whole `results` object of the API; the columns serve lists."""

    run = models.OneToOneField(Run, models.CASCADE, related_name="result")
    verdict = models.CharField(max_length=20)
    load_line = models.FloatField(null=True)
    load_line_low = models.FloatField(null=True)
    load_line_high = models.FloatField(null=True)
    relation = models.CharField(max_length=2, blank=True)
    text = models.TextField()
    document = models.JSONField()
    created_at = models.DateTimeField(auto_now=True)

    def __str__(self) -> str:
        return self.text
