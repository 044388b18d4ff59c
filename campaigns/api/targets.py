"""Targets: /targets."""

from __future__ import annotations

from typing import Any

from django.db import transaction
from django.http import HttpRequest, HttpResponse
from ninja import Query, Router, Status

from campaigns import models
from campaigns.api import examples
from campaigns.api.auth import caller, require
from campaigns.api.bodies import documented, read, read_changes
from campaigns.api.links import created, one
from campaigns.api.lists import Window, page
from campaigns.api.schemas import Page, Preflight, Target, answers
from campaigns.models import Scope
from campaigns.models.access import ARCHIVING
from campaigns.services.inputs import TargetInput
from campaigns.services.preflight import preflight_target
from campaigns.services.targets import (
    archive_target,
    create_target,
    describe_target,
    unarchive_target,
    update_target,
)

router = Router(tags=["targets"])


@router.get("", auth=require(Scope.READ), response=answers(200, Page[Target], 422), summary="List targets")
def list_targets(request: HttpRequest, window: Query[Window]) -> dict[str, Any]:
    """Targets in use, the newest first. Scope: read."""
    return page(models.Target.objects.current().select_related("created_by"), window, describe_target)


@router.post(
    "",
    auth=require(Scope.LAUNCH),
    response=answers(201, Target, 400, 415, 422),
    summary="Create a target",
    openapi_extra=documented(TargetInput, examples.TARGET),
)
def post_target(request: HttpRequest, response: HttpResponse) -> Status[Any]:
    """`api_key` and `headers` are write-only. Scope: launch."""
    target = create_target(caller(request).user, read(request, TargetInput))
    return created(response, "get_target", describe_target(target))


@router.get("/{int:target_id}", auth=require(Scope.READ), response=answers(200, Target, 404), summary="Read a target")
def get_target(request: HttpRequest, target_id: int) -> dict[str, Any]:
    """Scope: read."""
    return describe_target(one(models.Target.objects.all(), target_id))


@router.patch(
    "/{int:target_id}",
    auth=require(Scope.LAUNCH),
    response=answers(200, Target, 400, 404, 409, 415, 422),
    summary="Change a target",
    openapi_extra=documented(TargetInput, examples.TARGET_CHANGES, changes=True),
)
@transaction.atomic
def patch_target(request: HttpRequest, target_id: int) -> dict[str, Any]:
    """Fields that are not given stay, the key and the headers too; an empty value clears them. Scope: launch."""
    target = one(models.Target.objects.select_for_update(), target_id)
    return describe_target(update_target(target, read_changes(request, TargetInput, describe_target(target))))


@router.delete(
    "/{int:target_id}", auth=require(ARCHIVING), response=answers(204, None, 404, 409), summary="Archive a target"
)
def delete_target(request: HttpRequest, target_id: int) -> HttpResponse:
    """Takes it out of use; its runs and their results stay. Scope: admin."""
    archive_target(one(models.Target.objects.all(), target_id))
    return HttpResponse(status=204)


@router.post(
    "/{int:target_id}/unarchive",
    auth=require(ARCHIVING),
    response=answers(200, Target, 404, 422),
    summary="Take a target out of the archive",
)
def post_unarchive_target(request: HttpRequest, target_id: int) -> dict[str, Any]:
    """Puts it back into use; 422 when its name was taken meanwhile. Scope: admin."""
    target = one(models.Target.objects.all(), target_id)
    unarchive_target(target)
    target.refresh_from_db()
    return describe_target(target)


@router.post(
    "/{int:target_id}/preflight",
    auth=require(Scope.LAUNCH),
    response=answers(200, Preflight, 404),
    summary="Check a target",
)
def post_preflight(request: HttpRequest, target_id: int) -> dict[str, Any]:
    """Sends a few small requests to the target and says what it found. A target that fails the checks is an answer
    (`ok` is false), not an error of this call. Scope: launch."""
    return preflight_target(one(models.Target.objects.all(), target_id)).as_dict()
