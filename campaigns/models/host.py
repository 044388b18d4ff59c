"""A worker host as it last spoke up."""

from __future__ import annotations

from datetime import timedelta

from django.db import models
from django.utils import timezone

SILENT_AFTER_S = 30


class WorkerHostQuerySet(models.QuerySet["WorkerHost"]):
    def live(self) -> WorkerHostQuerySet:
        """Hosts that have spoken within `SILENT_AFTER_S`."""
        return self.filter(heartbeat_at__gte=timezone.now() - timedelta(seconds=SILENT_AFTER_S))

    def served_queues(self) -> frozenset[str]:
        """The queues that a live host takes work from."""
        return frozenset(queue for queues in self.live().values_list("queues", flat=True) for queue in queues)


class WorkerHost(models.Model):
    name = models.CharField(max_length=200, unique=True, help_text="Celery's node name.")
    hostname = models.CharField(max_length=200)
    queues = models.JSONField(default=list)
    version = models.CharField(max_length=40)
    started_at = models.DateTimeField()
    heartbeat_at = models.DateTimeField(db_index=True)

    objects = WorkerHostQuerySet.as_manager()

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name
