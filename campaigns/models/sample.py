"""What was recorded while a run ran: live progress, a row a second, and each stage's request log as one blob."""

from __future__ import annotations

from django.db import models

from campaigns.models.stage import Stage


class StageTick(models.Model):
    """A progress line of the load generator (phase, in flight, tokens/s, …), `t_s` from the stage's start."""

    stage = models.ForeignKey(Stage, models.CASCADE, related_name="ticks")
    t_s = models.FloatField()
    at = models.DateTimeField(auto_now_add=True)
    progress = models.JSONField()

    class Meta:
        ordering = ["stage", "t_s"]
        constraints = [models.UniqueConstraint(fields=["stage", "t_s"], name="tick_once_a_time")]

    def __str__(self) -> str:
        return f"{self.stage_id} at {self.t_s:.0f} s"


class RequestLog(models.Model):
    """Every request of a stage: an Arrow IPC file with zstd, columns as in docs/request-log.md."""

    stage = models.OneToOneField(Stage, models.CASCADE, related_name="request_log")
    rows = models.PositiveIntegerField()
    arrow = models.BinaryField()

    def __str__(self) -> str:
        return f"{self.rows} requests of {self.stage}"
