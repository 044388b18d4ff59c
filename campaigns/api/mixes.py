"""Traffic mixes: /mixes."""

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
from campaigns.api.schemas import Mix, Page, answers
from campaigns.models import Scope
from campaigns.models.access import ARCHIVING
from campaigns.services.inputs import MixInput
from campaigns.services.mixes import archive_mix, create_mix, describe_mix, unarchive_mix, update_mix

router = Router(tags=["mixes"])


@router.get("", auth=require(Scope.READ), response=answers(200, Page[Mix], 422), summary="List mixes")
def list_mixes(request: HttpRequest, window: Query[Window]) -> dict[str, Any]:
    """Mixes in use, the newest first. Scope: read."""
    return page(models.Mix.objects.current().select_related("created_by"), window, describe_mix)


@router.post(
    "",
    auth=require(Scope.LAUNCH),
    response=answers(201, Mix, 400, 415, 422),
    summary="Create a mix",
    openapi_extra=documented(MixInput, examples.MIX),
)
def post_mix(request: HttpRequest, response: HttpResponse) -> Status[Any]:
    """`input_tokens` and `output_tokens`: a number, or a distribution: `{"dist": "uniform", "min", "max"}`,
    `{"dist": "normal", "mean", "sd", "min", "max"}`, `{"dist": "lognormal", "median", "sigma", "max"}` or
    `{"dist": "empirical", "values"}`. With `turns`, as a number or distribution, each request dealt is a conversation:
    a turn adds `input_tokens` of new text to all that was said, `think_s` after the answer before it. Scope: launch."""
    mix = create_mix(caller(request).user, read(request, MixInput))
    return created(response, "get_mix", describe_mix(mix))


@router.get("/{int:mix_id}", auth=require(Scope.READ), response=answers(200, Mix, 404), summary="Read a mix")
def get_mix(request: HttpRequest, mix_id: int) -> dict[str, Any]:
    """Scope: read."""
    return describe_mix(one(models.Mix.objects.all(), mix_id))


@router.patch(
    "/{int:mix_id}",
    auth=require(Scope.LAUNCH),
    response=answers(200, Mix, 400, 404, 409, 415, 422),
    summary="Change a mix",
    openapi_extra=documented(MixInput, examples.MIX_CHANGES, changes=True),
)
@transaction.atomic
def patch_mix(request: HttpRequest, mix_id: int) -> dict[str, Any]:
    """Changes no run: each keeps its own copy. Scope: launch."""
    mix = one(models.Mix.objects.select_for_update(), mix_id)
    return describe_mix(update_mix(mix, read_changes(request, MixInput, describe_mix(mix))))


@router.delete("/{int:mix_id}", auth=require(ARCHIVING), response=answers(204, None, 404), summary="Archive a mix")
def delete_mix(request: HttpRequest, mix_id: int) -> HttpResponse:
    """Takes it out of use; its runs stay. Scope: admin."""
    archive_mix(one(models.Mix.objects.all(), mix_id))
    return HttpResponse(status=204)


@router.post(
    "/{int:mix_id}/unarchive",
    auth=require(ARCHIVING),
    response=answers(200, Mix, 404, 422),
    summary="Take a mix out of the archive",
)
def post_unarchive_mix(request: HttpRequest, mix_id: int) -> dict[str, Any]:
    """Puts it back into use; 422 when its name was taken meanwhile. Scope: admin."""
    mix = one(models.Mix.objects.all(), mix_id)
    unarchive_mix(mix)
    mix.refresh_from_db()
    return describe_mix(mix)
