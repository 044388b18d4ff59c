"""Campaigns: the list, and one with its plan and its runs."""

from __future__ import annotations

from django.contrib.auth.decorators import login_required
from django.db.models import Count, Max, Prefetch
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.views.decorators.http import require_safe

from campaigns.models import Campaign, Run
from campaigns.pages.forms.campaign import LaunchForm
from campaigns.pages.forms.text_values import lines_of
from campaigns.pages.mix_preview import preview_of
from campaigns.pages.paging import page_of
from campaigns.pages.render import page
from campaigns.services.estimate import estimate
from campaigns.services.plans import freeze

RUNS_SHOWN = 50


@require_safe
@login_required
def campaign_list(request: HttpRequest) -> HttpResponse:
    newest = Run.objects.select_related("result").order_by("campaign_id", "-id").distinct("campaign_id")
    campaigns = (
        Campaign.objects.select_related("target", "mix")
        .annotate(run_count=Count("runs"), newest_run=Max("runs__id"))
        .prefetch_related(Prefetch("runs", queryset=newest, to_attr="newest_runs"))
        .order_by("-newest_run", "-id")
    )
    return page(request, "campaigns/list.html", campaigns=page_of(request, campaigns))


@require_safe
@login_required
def campaign_detail(request: HttpRequest, pk: int) -> HttpResponse:
    campaign = get_object_or_404(Campaign.objects.select_related("target", "mix", "created_by"), pk=pk)
    last = campaign.runs.first()
    # What was under test last time is the likeliest thing to be changed a little.
    facts = lines_of(last.deployment, " =") if last else ""
    return campaign_page(request, campaign, LaunchForm(initial={"deployment": facts}))


def campaign_page(request: HttpRequest, campaign: Campaign, form: LaunchForm, status: int = 200) -> HttpResponse:
    plan = freeze(campaign)
    return page(
        request,
        "campaigns/detail.html",
        status=status,
        campaign=campaign,
        plan=plan,
        estimate=estimate(plan),
        mix=preview_of(plan.mix.classes),
        form=form,
        runs=campaign.runs.select_related("result", "created_by")[:RUNS_SHOWN],
    )
