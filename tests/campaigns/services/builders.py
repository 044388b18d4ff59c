"""Small builders of inputs and rows for the tests of services."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import User
from django.utils import timezone

from campaigns.models import Campaign, Mix, Run, Target
from campaigns.services.enqueue import default_queue
from campaigns.services.inputs import CampaignInput, LaunchInput, MixInput, TargetInput, decode
from campaigns.services.launch import launch_run
from campaigns.services.mixes import create_mix
from campaigns.services.plans import create_campaign
from campaigns.services.targets import create_target
from workers import heartbeat


def make_user(name: str = "ann") -> User:
    return User.objects.get_or_create(username=name)[0]


def target_input(**changes: Any) -> TargetInput:
    return decode(TargetInput, {"name": "t", "base_url": "http://127.0.0.1:8000/v1", "model": "m", **changes})


def mix_input(**changes: Any) -> MixInput:
    one = {"name": "a", "weight": 1, "input_tokens": 10, "output_tokens": 20}
    return decode(MixInput, {"name": "x", "classes": [one], **changes})


def make_target(**changes: Any) -> Target:
    return create_target(make_user(), target_input(**changes))


def make_mix(**changes: Any) -> Mix:
    return create_mix(make_user(), mix_input(**changes))


def campaign_input(on: Target, of: Mix, **changes: Any) -> CampaignInput:
    return decode(CampaignInput, {"name": "c", "target": on.pk, "mix": of.pk, **changes})


def make_campaign(**changes: Any) -> Campaign:
    return create_campaign(make_user(), campaign_input(make_target(), make_mix(), **changes))


def make_run(campaign: Campaign | None = None, **changes: Any) -> Run:
    """A run that was launched while a worker served the default queue."""
    heartbeat.write("worker@bench", [default_queue()], timezone.now())
    return launch_run(campaign or make_campaign(), make_user(), LaunchInput(**changes))
