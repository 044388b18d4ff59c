"""A traffic mix: the classes of requests and their weights. Its shape is the load generator's `mix`."""

from __future__ import annotations

from django.conf import settings
from django.db import models


class MixQuerySet(models.QuerySet["Mix"]):
    def current(self) -> MixQuerySet:
        return self.filter(archived_at=None)


class Mix(models.Model):
    name = models.CharField(max_length=120)
    classes = models.JSONField(help_text="[{name, weight, input_tokens, output_tokens}, …]")
    shared_prefix_tokens = models.PositiveIntegerField(default=0)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, editable=False)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)
    archived_at = models.DateTimeField(null=True, blank=True, editable=False)

    objects = MixQuerySet.as_manager()

    class Meta:
        ordering = ["name"]
        verbose_name_plural = "mixes"
        constraints = [
            models.UniqueConstraint(
                fields=["name"],
                condition=models.Q(archived_at=None),
                name="mix_name_unique",
                violation_error_code="unique",
            ),
            models.CheckConstraint(condition=~models.Q(name=""), name="mix_has_name"),
        ]

    def __str__(self) -> str:
        return self.name
