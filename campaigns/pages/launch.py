"""Launching: the form that makes a campaign and its first run, what it will cost, and another run of a campaign."""

from __future__ import annotations

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST

from campaigns.models import Campaign, Mix, Target
from campaigns.pages.access import launcher_required, person
from campaigns.pages.campaigns import campaign_page
from campaigns.pages.forms.campaign import CampaignForm, LaunchForm
from campaigns.pages.query import whole_number
from campaigns.pages.render import page
from campaigns.pages.targets import target_preflight
from campaigns.services.errors import ServiceError
from campaigns.services.estimate import estimate
from campaigns.services.first_launch import FirstLaunch, create_and_launch
from campaigns.services.inputs import CampaignInput
from campaigns.services.launch import launch_run


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def campaign_new(request: HttpRequest) -> HttpResponse:
    """`?target=&mix=` begins with these. Viewers may read the form; what keeps them from launching is said there."""
    if request.method == "POST":
        return _create(request)
    form = _form(request)
    chosen = str(form["target"].value())
    # Without a choice the browser shows the first one.
    shown = chosen if chosen in form.target_names else next(iter(form.target_names), 0)
    return _page(request, form, Target.objects.filter(pk=shown).first())


@launcher_required
def _create(request: HttpRequest) -> HttpResponse:
    form = _form(request)

    def launch(data: CampaignInput) -> FirstLaunch:
        return create_and_launch(person(request), data, form.launch_input(), form.preset)

    launched = form.submit(launch)
    if launched is None:
        target = Target.objects.current().filter(pk=form.cleaned_data.get("target", 0)).first()
        return _page(request, form, target, status=422)
    if not launched.is_new:
        messages.info(request, _("That form was sent before: this is its run. “Run again” makes another one."))
    return redirect("run-detail", launched.run.pk)


@require_POST
@login_required
def launch_estimate(request: HttpRequest) -> HttpResponse:
    """How long the form as it stands would take; nothing is kept."""
    form = _form(request)
    data = form.read()
    return page(request, "campaigns/_estimate.html", estimate=estimate(data) if _can_be_estimated(data) else None)


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def launch_preflight(request: HttpRequest) -> HttpResponse:
    """The newest preflight of the target that is chosen in the form; a POST makes a new one."""
    chosen = request.GET.get("target") or request.POST.get("target", "")
    target = get_object_or_404(Target.objects.current(), pk=whole_number(chosen))
    if request.method == "POST":
        return target_preflight(request, target.pk)
    return page(request, "targets/_preflight.html", report=target.preflight, target=target)


@require_POST
@launcher_required
def run_launch(request: HttpRequest, pk: int) -> HttpResponse:
    """Another run of a campaign."""
    campaign = get_object_or_404(Campaign.objects.select_related("target", "mix"), pk=pk)
    form = LaunchForm(request.POST)
    if form.is_valid():
        try:
            run = launch_run(campaign, person(request), form.launch_input())
            return redirect("run-detail", run.pk)
        except ServiceError as error:
            form.add_error(None, error.message)
    return campaign_page(request, campaign, form, status=422)


def _form(request: HttpRequest) -> CampaignForm:
    given = {name: request.GET[name] for name in ("target", "mix") if name in request.GET}
    return CampaignForm(
        request.POST if request.method == "POST" else None,
        targets=Target.objects.current(),
        mixes=Mix.objects.current(),
        initial=given,
    )


def _page(request: HttpRequest, form: CampaignForm, target: Target | None, status: int = 200) -> HttpResponse:
    return page(
        request, "campaigns/launch.html", form=form, target=target, report=target and target.preflight, status=status
    )


def _can_be_estimated(data: CampaignInput | None) -> bool:
    return (
        data is not None
        and bool(data.stages)
        and all(low < high for low, high in zip([0, *data.stages], data.stages, strict=False))
        and data.stage_s + data.warmup_s > 0
        and data.repeats > 0
    )
