"""A campaign: a target, a mix and the plan of stages, launched as often as the team likes."""

from __future__ import annotations

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models

from campaigns.models.mix import Mix
from campaigns.models.plan import DEFAULT_CRITERIA, DEFAULT_STAGES
from campaigns.models.target import Target


def default_stages() -> list[int]:
    return list(DEFAULT_STAGES)


def default_criteria() -> list[dict[str, object]]:
    return [criterion.as_dict() for criterion in DEFAULT_CRITERIA]


class Campaign(models.Model):
    name = models.CharField(max_length=120)
    target = models.ForeignKey(Target, models.PROTECT, related_name="campaigns")
    mix = models.ForeignKey(Mix, models.PROTECT, related_name="campaigns")
    stages = ArrayField(models.PositiveIntegerField(), default=default_stages)
    stage_s = models.FloatField(default=300)
    warmup_s = models.FloatField(default=30)
    drain_s = models.FloatField(default=120)
    baseline_s = models.FloatField(null=True, blank=True, help_text="Empty: as long as a stage.")
    timeout_s = models.FloatField(default=600)
    criteria = models.JSONField(default=default_criteria)
    refine_enabled = models.BooleanField(default=True)
    refine_budget_s = models.FloatField(default=1800)
    repeats = models.PositiveSmallIntegerField(default=1)
    abort_error_pct = models.FloatField(default=50)
    abort_after_s = models.FloatField(default=30)
    load = models.CharField(max_length=10, default="closed")
    drivers = models.JSONField(default=list, blank=True)
    generation = models.JSONField(default=dict, blank=True)
    seed = models.PositiveIntegerField(default=1)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, editable=False)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.CheckConstraint(condition=~models.Q(name=""), name="campaign_has_name"),
            models.CheckConstraint(condition=models.Q(stages__len__gte=1), name="campaign_has_stages"),
            models.CheckConstraint(condition=models.Q(stage_s__gt=0), name="campaign_stage_takes_time"),
            models.CheckConstraint(condition=models.Q(warmup_s__gte=0), name="campaign_warmup_not_negative"),
            models.CheckConstraint(condition=models.Q(drain_s__gte=0), name="campaign_drain_not_negative"),
            models.CheckConstraint(condition=models.Q(repeats__gte=1), name="campaign_runs_at_least_once"),
            models.CheckConstraint(condition=models.Q(load="closed"), name="campaign_load_known"),
        ]

    def __str__(self) -> str:
        return self.name
