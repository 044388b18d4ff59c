"""Runs, their results, events and request logs: /runs."""

from __future__ import annotations

from typing import Any, Literal

from django.http import HttpRequest, HttpResponse, HttpResponseBase, JsonResponse
from ninja import Query, Router, Status
from pydantic import Field

from campaigns import models
from campaigns.api.auth import caller, require
from campaigns.api.links import one
from campaigns.api.lists import ID_MAX, QueryParameters, Window, page
from campaigns.api.schemas import Events, Page, Results, Run, answers
from campaigns.api.streaming import stream
from campaigns.models import RunState, Scope
from campaigns.services.cancel import cancel_run
from campaigns.services.export import export_requests
from campaigns.services.resume import resume_run
from campaigns.services.runs import describe_run, events_after, results_of

router = Router(tags=["runs"])
RUNS = models.Run.objects.select_related("campaign", "target", "result", "created_by", "cancel_requested_by")


class RunFilter(Window):
    target: int | None = Field(None, ge=1, le=ID_MAX, description="Only runs on the target with this id.")
    mix: int | None = Field(None, ge=1, le=ID_MAX, description="Only runs that sent the mix with this id.")
    campaign: int | None = Field(None, ge=1, le=ID_MAX, description="Only runs of the campaign with this id.")
    state: RunState | None = Field(None, description="Only runs in this state.")
    label: str | None = Field(None, pattern=r"^[^\x00]*$", description="Only runs with exactly this label.")


class EventsQuery(QueryParameters):
    after: int = Field(0, ge=0, le=ID_MAX, description="Only events with a greater id; 0 starts from the beginning.")
    limit: int = Field(200, ge=1, le=1000, description="How many events at most.")


class RequestsQuery(QueryParameters):
    format: Literal["arrow", "parquet", "csv", "jsonl"] = Field("arrow", description="The kind of file.")


@router.get("", auth=require(Scope.READ), response=answers(200, Page[Run], 422), summary="List runs")
def list_runs(request: HttpRequest, only: Query[RunFilter]) -> dict[str, Any]:
    """The newest first; several filters must all hold. Scope: read."""
    wanted = {
        "target": only.target,
        # The mix that the run sent, which its campaign may have exchanged since.
        "plan__mix__id": only.mix,
        "campaign": only.campaign,
        "state": only.state,
        "label": only.label,
    }
    rows = RUNS.filter(**{name: value for name, value in wanted.items() if value is not None})
    return page(rows, only, describe_run)


@router.get("/{int:run_id}", auth=require(Scope.READ), response=answers(200, Run, 404), summary="Read a run")
def get_run(request: HttpRequest, run_id: int) -> dict[str, Any]:
    """Its state and progress, and the plan that it keeps. Scope: read."""
    return describe_run(one(RUNS.all(), run_id))


@router.get(
    "/{int:run_id}/results",
    auth=require(Scope.READ),
    response=answers(200, Results, 404, 409),
    summary="Read the results",
)
def get_results(request: HttpRequest, run_id: int) -> HttpResponse:
    """409 while the run is not analysed. Scope: read."""
    # As it was stored: older versions of Brimline may have written it, and nothing of it may be lost.
    return JsonResponse(results_of(one(RUNS.all(), run_id)))


@router.get(
    "/{int:run_id}/events", auth=require(Scope.READ), response=answers(200, Events, 404, 422), summary="Follow a run"
)
def get_events(request: HttpRequest, run_id: int, window: Query[EventsQuery]) -> dict[str, Any]:
    """What happened, in order; events are never changed, so the same question gives the same answer again. To follow a
    run, ask with `after` = the id of the last event you have. Scope: read."""
    found = events_after(one(RUNS.all(), run_id), window.after, window.limit + 1)
    shown = found[: window.limit]
    return {"items": shown, "next": shown[-1]["id"] if len(found) > window.limit else None}


@router.post(
    "/{int:run_id}/cancel", auth=require(Scope.LAUNCH), response=answers(202, Run, 404, 409), summary="Cancel a run"
)
def post_cancel(request: HttpRequest, run_id: int) -> Status[Any]:
    """A queued run ends at once, a running one within seconds; what it finished is kept and analysed. Asking again
    changes nothing; 409 when the run is over. Scope: launch."""
    return Status(202, describe_run(cancel_run(one(RUNS.all(), run_id), caller(request).user)))


@router.post(
    "/{int:run_id}/resume", auth=require(Scope.LAUNCH), response=answers(202, Run, 404, 409), summary="Resume a run"
)
def post_resume(request: HttpRequest, run_id: int) -> Status[Any]:
    """Queues an interrupted run, which goes on from its last whole stage; 409 in any other state. Scope: launch."""
    return Status(202, describe_run(resume_run(one(RUNS.all(), run_id), caller(request).user)))


def _file(media_type: str) -> dict[str, Any]:
    return {media_type: {"schema": {"type": "string", "format": "binary"}}}


@router.get(
    "/{int:run_id}/requests",
    auth=require(Scope.READ),
    response=answers(200, None, 404, 409, 422),
    summary="Download the request log",
    openapi_extra={
        "responses": {
            200: {
                "content": _file("application/vnd.apache.arrow.file")
                | _file("application/vnd.apache.parquet")
                | _file("text/csv")
                | _file("application/jsonl")
            }
        }
    },
)
def get_requests(request: HttpRequest, run_id: int, query: Query[RequestsQuery]) -> HttpResponseBase:
    """Every request of every whole stage, with the columns stage, kind and concurrency in front; 409 while no stage is
    whole. Scope: read."""
    export = export_requests(one(RUNS.all(), run_id), query.format)
    return stream(request, export.chunks, export.content_type, export.filename)
