"""The launch form as one step: a campaign, its mix where a preset was chosen, and its first run.

They are made once, however often the form is sent; with another content it is another launch.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
from django.contrib.auth.models import AbstractBaseUser
from django.db import connection, transaction

from campaigns.models import Mix, Run
from campaigns.services.inputs import CampaignInput, LaunchInput, MixInput
from campaigns.services.launch import key_of, launch_run
from campaigns.services.mixes import create_mix
from campaigns.services.plans import create_campaign


@dataclass(frozen=True, slots=True)
class FirstLaunch:
    """`is_new` is False when this person's form with that key and that content had made `run` before."""

    run: Run
    is_new: bool


@transaction.atomic
def create_and_launch(
    user: AbstractBaseUser, campaign: CampaignInput, launch: LaunchInput, preset: MixInput | None = None
) -> FirstLaunch:
    """`preset` is used as the mix, and kept as one if there is none of its name. Raises InvalidInput, Conflict."""
    if launch.idempotency_key is not None:
        # Of one form sent twice at once, the second waits here until the first has made its run.
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, %s))", [launch.idempotency_key, user.pk])
    if preset is not None:
        mix = Mix.objects.current().filter(name=preset.name).first() or create_mix(user, preset)
        campaign = msgspec.structs.replace(campaign, mix=mix.pk)
    key = key_of(launch.idempotency_key, campaign)
    if key is not None:
        known = Run.objects.filter(created_by_id=user.pk, idempotency_key=key).first()
        if known is not None:
            return FirstLaunch(known, is_new=False)
    launch = msgspec.structs.replace(launch, idempotency_key=key)
    return FirstLaunch(launch_run(create_campaign(user, campaign), user, launch), is_new=True)
