"""One run: live while it runs, its results when it is over; cancel and resume."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import AbstractBaseUser
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_POST, require_safe

from campaigns.models import RequestLog, Run, RunResult, RunState, StageState
from campaigns.pages.access import launcher_required, person
from campaigns.pages.live import strip_of
from campaigns.pages.mix_preview import preview_of
from campaigns.pages.render import page
from campaigns.pages.results import results_page
from campaigns.services.cancel import cancel_run
from campaigns.services.errors import ServiceError
from campaigns.services.progress import progress_of
from campaigns.services.reproduce import reproduction_of
from campaigns.services.resume import resume_run

NEXT_STEP = {
    RunState.CANCELLED: gettext_lazy("Stages that were whole are kept and analysed. Run again for a full answer."),
    RunState.ABORTED: gettext_lazy(
        "Look at the failures of the last stage below, then run again: with a lower ladder, a longer request timeout, "
        "or after the service is repaired."
    ),
    RunState.FAILED: gettext_lazy("Check the target with its preflight, repair what it names, and run again."),
    RunState.INTERRUPTED: gettext_lazy(
        "The worker that drove the run was lost. Resume it: it goes on from the last whole stage."
    ),
}
DOWNLOADS = ("arrow", "parquet", "csv", "jsonl")


@require_safe
@login_required
def run_detail(request: HttpRequest, pk: int) -> HttpResponse:
    run = get_object_or_404(
        Run.objects.select_related("campaign", "target", "created_by", "cancel_requested_by"), pk=pk
    )
    plan = run.frozen_plan
    context: dict[str, Any] = {"run": run, "plan": plan, "mix": preview_of(plan.mix.classes)}
    if not run.is_over:
        return page(request, "runs/live.html", progress=progress_of(run), strip=strip_of(run), **context)
    result = RunResult.objects.filter(run=run).first()
    return page(
        request,
        "runs/results.html",
        results=results_page(result.document, list(plan.mix.weights)) if result else None,
        reproduction=reproduction_of(run),
        next_step=NEXT_STEP.get(RunState(run.state), ""),
        downloads=DOWNLOADS if RequestLog.objects.filter(stage__run=run, stage__state=StageState.DONE).exists() else (),
        events=run.events.order_by("id"),
        **context,
    )


@require_POST
@launcher_required
def run_cancel(request: HttpRequest, pk: int) -> HttpResponse:
    return _act(request, pk, cancel_run, _("The run was asked to stop; it does so within seconds."))


@require_POST
@launcher_required
def run_resume(request: HttpRequest, pk: int) -> HttpResponse:
    return _act(request, pk, resume_run, _("The run is queued again and goes on from its last whole stage."))


def _act(request: HttpRequest, pk: int, action: Callable[[Run, AbstractBaseUser], Run], done: str) -> HttpResponse:
    run = get_object_or_404(Run, pk=pk)
    try:
        action(run, person(request))
    except ServiceError as error:
        messages.error(request, error.message)
    else:
        messages.success(request, done)
    return redirect("run-detail", pk)
