"""A deployment under test: where it is, how to speak to it, where its metrics are."""

from __future__ import annotations

from django.conf import settings
from django.db import models

from campaigns.models.secret import SecretField


class Protocol(models.TextChoices):
    CHAT = "openai-chat", "OpenAI chat completions"
    COMPLETIONS = "openai-completions", "OpenAI text completions"


class TargetQuerySet(models.QuerySet["Target"]):
    def current(self) -> TargetQuerySet:
        return self.filter(archived_at=None)


class Target(models.Model):
    name = models.CharField(max_length=120)
    base_url = models.CharField(max_length=500)
    model = models.CharField(max_length=300)
    protocol = models.CharField(max_length=20, choices=Protocol, default=Protocol.CHAT)
    api_key = SecretField()
    # Headers may carry keys of their own, so they are a secret too: JSON of {name: value}.
    headers = SecretField()
    verify_tls = models.BooleanField(default=True)
    gpu_count = models.PositiveIntegerField(null=True, blank=True)
    gpu_model = models.CharField(max_length=120, blank=True)
    queue = models.CharField(max_length=120, blank=True, help_text="Celery queue of the host that drives the load.")
    metrics = models.JSONField(default=list, blank=True)
    tags = models.JSONField(default=list, blank=True)
    # The newest preflight: {ok, checks, detected, at}; null when none was made.
    preflight = models.JSONField(null=True, blank=True, editable=False)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, editable=False)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)
    archived_at = models.DateTimeField(null=True, blank=True, editable=False)

    objects = TargetQuerySet.as_manager()

    class Meta:
        ordering = ["name"]
        constraints = [
            models.UniqueConstraint(
                fields=["name"],
                condition=models.Q(archived_at=None),
                name="target_name_unique",
                violation_error_code="unique",
            ),
            models.CheckConstraint(condition=models.Q(protocol__in=Protocol.values), name="target_protocol_known"),
            models.CheckConstraint(condition=~models.Q(name=""), name="target_has_name"),
            models.CheckConstraint(condition=~models.Q(base_url=""), name="target_has_address"),
        ]

    def __str__(self) -> str:
        return self.name
