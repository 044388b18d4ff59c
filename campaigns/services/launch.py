"""Launches a run of a campaign: freezes its plan, queues it, and hands it to the workers once that is committed."""

from __future__ import annotations

import hashlib
from functools import partial

import msgspec
from django.contrib.auth.models import AbstractBaseUser
from django.db import transaction
from msgspec import Struct

from campaigns.models import Campaign, Run, RunEvent
from campaigns.services.checks import Problems
from campaigns.services.enqueue import enqueue
from campaigns.services.errors import Conflict
from campaigns.services.inputs import LaunchInput
from campaigns.services.plans import freeze
from campaigns.services.waiting import tell_unserved

KEY_MAX = 100
NOTES_MAX = 10_000


def key_of(token: str | None, content: Struct) -> str | None:
    """A key that is the same only for the same token with the same content; without a token there is none."""
    return hashlib.sha256(token.encode() + msgspec.json.encode(content)).hexdigest() if token else None


@transaction.atomic
def launch_run(campaign: Campaign, user: AbstractBaseUser, data: LaunchInput) -> Run:
    """A new queued run; with an `idempotency_key` that this campaign has seen, the run it made then.

    Without a broker the run stays queued and is started when one is back. Raises InvalidInput, Conflict.
    """
    label, key = _check(data)
    # The campaign is locked, so that of one launch sent twice at once the second looks only after the first made its
    # run; the target, so that nobody archives it or moves it to another address meanwhile.
    locked = Campaign.objects.select_related("target", "mix").select_for_update(of=("self", "target"))
    campaign = locked.get(pk=campaign.pk)
    if key is not None and (known := campaign.runs.filter(idempotency_key=key).first()) is not None:
        return known
    for kind, part in (("target", campaign.target), ("mix", campaign.mix)):
        if part.archived_at is not None:
            raise Conflict(f"The {kind} {part.name} is archived; give the campaign another {kind} before launching it")
    run = Run.objects.create(
        campaign=campaign,
        target=campaign.target,
        label=label,
        notes=data.notes,
        deployment=data.deployment,
        plan=freeze(campaign).as_dict(),
        idempotency_key=key,
        created_by_id=user.pk,
    )
    RunEvent.objects.create(run=run, kind="queued", message=f"Launched by {user.get_username()}")
    tell_unserved(run)
    transaction.on_commit(partial(enqueue, run))
    return run


def _check(data: LaunchInput) -> tuple[str, str | None]:
    problems = Problems()
    label = problems.text("label", data.label, blank=True)
    problems.paragraphs("notes", data.notes, NOTES_MAX)
    problems.json("deployment", data.deployment)
    key = None
    if data.idempotency_key is not None:
        key = problems.text("idempotency_key", data.idempotency_key, KEY_MAX)
    problems.stop()
    return label, key
