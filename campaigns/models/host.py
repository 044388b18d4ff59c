"""A worker host as it last spoke up."""

from __future__ import annotations

from django.db import models


class WorkerHost(models.Model):
    name = models.CharField(max_length=200, unique=True, help_text="Celery's node name.")
    hostname = models.CharField(max_length=200)
    queues = models.JSONField(default=list)
    version = models.CharField(max_length=40)
    started_at = models.DateTimeField()
    heartbeat_at = models.DateTimeField(db_index=True)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name
