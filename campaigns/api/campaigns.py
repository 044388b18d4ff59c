"""Campaigns and their launch: /campaigns."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from ninja import Header, Query, Router, Status

from campaigns import models
from campaigns.api import examples
from campaigns.api.auth import caller, require
from campaigns.api.bodies import documented, read, read_changes, read_optional
from campaigns.api.links import created, one
from campaigns.api.lists import Window, page
from campaigns.api.schemas import Campaign, Page, Run, answers
from campaigns.models import Scope
from campaigns.services.errors import InvalidInput
from campaigns.services.inputs import CampaignInput, LaunchInput
from campaigns.services.launch import launch_run
from campaigns.services.plans import create_campaign, describe_campaign, update_campaign
from campaigns.services.runs import describe_run

router = Router(tags=["campaigns"])
CAMPAIGNS = models.Campaign.objects.select_related("target", "mix", "created_by")


@router.get("", auth=require(Scope.READ), response=answers(200, Page[Campaign], 422), summary="List campaigns")
def list_campaigns(request: HttpRequest, window: Query[Window]) -> dict[str, Any]:
    """The newest first. Scope: read."""
    return page(CAMPAIGNS.all(), window, describe_campaign)


@router.post(
    "",
    auth=require(Scope.LAUNCH),
    response=answers(201, Campaign, 400, 415, 422),
    summary="Create a campaign",
    openapi_extra=documented(CampaignInput, examples.CAMPAIGN),
)
def post_campaign(request: HttpRequest, response: HttpResponse) -> Status[Any]:
    """`target` and `mix` are ids. Nothing runs yet: launch it. Scope: launch."""
    campaign = create_campaign(caller(request).user, read(request, CampaignInput))
    return created(response, "get_campaign", describe_campaign(campaign))


@router.get(
    "/{int:campaign_id}", auth=require(Scope.READ), response=answers(200, Campaign, 404), summary="Read a campaign"
)
def get_campaign(request: HttpRequest, campaign_id: int) -> dict[str, Any]:
    """Scope: read."""
    return describe_campaign(one(CAMPAIGNS.all(), campaign_id))


@router.patch(
    "/{int:campaign_id}",
    auth=require(Scope.LAUNCH),
    response=answers(200, Campaign, 400, 404, 415, 422),
    summary="Change a campaign",
    openapi_extra=documented(CampaignInput, examples.CAMPAIGN_CHANGES, changes=True),
)
@transaction.atomic
def patch_campaign(request: HttpRequest, campaign_id: int) -> dict[str, Any]:
    """Changes no run: each keeps its own copy. Scope: launch."""
    campaign = one(models.Campaign.objects.select_for_update(), campaign_id)
    return describe_campaign(
        update_campaign(campaign, read_changes(request, CampaignInput, describe_campaign(campaign)))
    )


@router.post(
    "/{int:campaign_id}/runs",
    auth=require(Scope.LAUNCH),
    response=answers(202, Run, 400, 404, 409, 415, 422),
    summary="Launch a run",
    openapi_extra=documented(LaunchInput, examples.LAUNCH, required=False),
)
def post_run(
    request: HttpRequest,
    response: HttpResponse,
    campaign_id: int,
    idempotency_key: Annotated[
        str | None,
        Header(
            None,
            alias="Idempotency-Key",
            description="The same launch with the same key is one run; or `idempotency_key`.",
        ),
    ] = None,
) -> Status[Any]:
    """Queues a run. The workers start it when the target is free. Scope: launch."""
    data = read_optional(request, LaunchInput)
    if idempotency_key is not None:
        if data.idempotency_key not in {None, idempotency_key}:
            message = "differs from the header Idempotency-Key; send one of the two"
            raise InvalidInput(f"idempotency_key {message}", {"idempotency_key": [message]})
        data = msgspec.structs.replace(data, idempotency_key=idempotency_key)
    run = launch_run(one(CAMPAIGNS.all(), campaign_id), caller(request).user, data)
    return created(response, "get_run", describe_run(run), status=202)
