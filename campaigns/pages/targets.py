"""Targets: list, one deployment, its form, its preflight."""

from __future__ import annotations

from functools import partial

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from campaigns.models import Target
from campaigns.pages.access import archiver_required, launcher_required, person
from campaigns.pages.forms.target import TargetForm
from campaigns.pages.render import page
from campaigns.services.errors import Conflict, InvalidInput
from campaigns.services.preflight import preflight_target
from campaigns.services.targets import (
    archive_target,
    create_target,
    describe_target,
    unarchive_target,
    update_target,
)

RUNS_SHOWN = 20


@require_safe
@login_required
def target_list(request: HttpRequest) -> HttpResponse:
    archived = Target.objects.exclude(archived_at=None)
    return page(request, "targets/list.html", targets=Target.objects.current(), archived=archived)


@require_http_methods(["GET", "HEAD", "POST"])
@launcher_required
def target_new(request: HttpRequest) -> HttpResponse:
    form = TargetForm(request.POST if request.method == "POST" else None)
    if request.method == "POST" and (target := form.submit(partial(create_target, person(request)))) is not None:
        if "then_launch" in request.POST:
            return redirect(f"{reverse('campaign-new')}?target={target.pk}")
        return redirect("target-detail", target.pk)
    return page(request, "targets/form.html", form=form, status=422 if form.errors else 200)


@require_safe
@login_required
def target_detail(request: HttpRequest, pk: int) -> HttpResponse:
    target = get_object_or_404(Target, pk=pk)
    runs = target.runs.select_related("campaign", "result", "created_by")[:RUNS_SHOWN]
    return page(
        request,
        "targets/detail.html",
        target=target,
        described=describe_target(target),
        report=target.preflight,
        runs=runs,
    )


@require_http_methods(["GET", "HEAD", "POST"])
@launcher_required
def target_edit(request: HttpRequest, pk: int) -> HttpResponse:
    target = get_object_or_404(Target.objects.current(), pk=pk)
    form = TargetForm(request.POST if request.method == "POST" else None, described=describe_target(target))
    if request.method == "POST" and form.submit(partial(update_target, target)) is not None:
        return redirect("target-detail", pk)
    return page(request, "targets/form.html", form=form, target=target, status=422 if form.errors else 200)


@require_POST
@launcher_required
def target_preflight(request: HttpRequest, pk: int) -> HttpResponse:
    """Sends a few requests to the target; answers with the checks, or to a plain form with the target's page."""
    target = get_object_or_404(Target.objects.current(), pk=pk)
    preflight_target(target)
    if not request.headers.get("HX-Request"):
        return redirect("target-detail", pk)
    target.refresh_from_db()
    return page(request, "targets/_preflight.html", report=target.preflight, target=target)


@require_POST
@archiver_required
def target_unarchive(request: HttpRequest, pk: int) -> HttpResponse:
    target = get_object_or_404(Target, pk=pk)
    try:
        unarchive_target(target)
    except InvalidInput as error:
        messages.error(request, error.message)
    else:
        messages.success(request, _("%(name)s is in use again.") % {"name": target.name})
    return redirect("target-detail", pk)


@require_POST
@archiver_required
def target_archive(request: HttpRequest, pk: int) -> HttpResponse:
    target = get_object_or_404(Target, pk=pk)
    try:
        archive_target(target)
    except Conflict as error:
        messages.error(request, error.message)
        return redirect("target-detail", pk)
    messages.success(request, _("%(name)s is archived. Its runs stay.") % {"name": target.name})
    return redirect("target-list")
