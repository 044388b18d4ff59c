"""The home page: where things stand. Running campaigns, and each target with its current load line and last run."""

from __future__ import annotations

from dataclasses import dataclass

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from campaigns.models import ACTIVE_STATES, Run, RunResult, RunState, Target
from campaigns.pages.render import page
from campaigns.services.progress import Progress, progress_of


@dataclass(frozen=True, slots=True)
class TargetRow:
    target: Target
    result: RunResult | None
    last_run: Run | None


@dataclass(frozen=True, slots=True)
class ActiveRun:
    run: Run
    progress: Progress


@require_safe
@login_required
def home(request: HttpRequest) -> HttpResponse:
    """A request of htmx is answered with the running campaigns alone."""
    active = _active_runs()
    if request.headers.get("HX-Request"):
        return page(request, "home/_active.html", active=active)
    return page(request, "home/home.html", active=active, rows=_target_rows())


def _active_runs() -> list[ActiveRun]:
    runs = Run.objects.filter(state__in=[RunState.QUEUED, *ACTIVE_STATES]).select_related("campaign", "target")
    return [ActiveRun(run, progress_of(run)) for run in runs.order_by("id")]


def _target_rows() -> list[TargetRow]:
    runs = Run.objects.order_by("target_id", "-id").distinct("target_id")
    results = RunResult.objects.select_related("run").order_by("run__target_id", "-run_id").distinct("run__target_id")
    last_run = {run.target_id: run for run in runs}
    result = {one.run.target_id: one for one in results}
    return [TargetRow(one, result.get(one.pk), last_run.get(one.pk)) for one in Target.objects.current()]
