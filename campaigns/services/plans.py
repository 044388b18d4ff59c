"""Campaigns: creates and changes their plans, and freezes everything that a run depends on."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import msgspec
from django.contrib.auth.models import AbstractBaseUser
from django.db import transaction

from campaigns.analysis.criteria import FAILURE_METRIC, Criterion
from campaigns.analysis.requests import LATENCY_METRICS
from campaigns.models import Campaign, Mix, Target
from campaigns.models.plan import AbortPlan, CriterionPlan, MixPlan, RefinePlan, RunPlan, TargetPlan
from campaigns.services.checks import Problems
from campaigns.services.inputs import CampaignInput
from campaigns.services.targets import headers_of
from webapp.version import __version__
from workers.loadgen.plan import OWN_PARAMETERS

STAGES_MAX = 50
CONCURRENCY_MAX = 10_000
DAY_S = 86_400
SEED_MAX = 2**31 - 1
CRITERIA_MAX = 20
# What a form offers for criteria; a program may ask for any percentile, and for the failure share.
LATENCIES = LATENCY_METRICS
STATS = ("mean", "p50", "p90", "p95", "p99")
# What Brimline puts into every request itself: setting it twice would measure something other than the plan says.
SET_ELSEWHERE = OWN_PARAMETERS | {"stream_options", "max_completion_tokens"}


@transaction.atomic
def create_campaign(user: AbstractBaseUser, data: CampaignInput) -> Campaign:
    """Raises InvalidInput."""
    return _write(Campaign(created_by_id=user.pk), data)


@transaction.atomic
def update_campaign(campaign: Campaign, data: CampaignInput) -> Campaign:
    """Changes no run: each has its own copy. Raises InvalidInput."""
    return _write(Campaign.objects.select_for_update().get(pk=campaign.pk), data)


def describe_campaign(campaign: Campaign) -> dict[str, Any]:
    """The campaign as the API shows it, in the fields of `CampaignInput` and a few more."""
    return {
        "id": campaign.pk,
        "name": campaign.name,
        "target": campaign.target_id,
        "target_name": campaign.target.name,
        "mix": campaign.mix_id,
        "mix_name": campaign.mix.name,
        "stages": list(campaign.stages),
        "stage_s": campaign.stage_s,
        "warmup_s": campaign.warmup_s,
        "drain_s": campaign.drain_s,
        "baseline_s": campaign.baseline_s,
        "timeout_s": campaign.timeout_s,
        "criteria": campaign.criteria,
        "refine": {"enabled": campaign.refine_enabled, "budget_s": campaign.refine_budget_s},
        "repeats": campaign.repeats,
        "abort": {"error_pct": campaign.abort_error_pct, "after_s": campaign.abort_after_s},
        "load": campaign.load,
        "drivers": campaign.drivers,
        "generation": campaign.generation,
        "seed": campaign.seed,
        "created_by": campaign.created_by.get_username() if campaign.created_by else None,
        "created_at": campaign.created_at.isoformat(),
        "updated_at": campaign.updated_at.isoformat(),
    }


def freeze(campaign: Campaign) -> RunPlan:
    """The copy that a run keeps: no later edit of campaign, target or mix changes it. Holds no secret."""
    target, mix = campaign.target, campaign.mix
    return RunPlan(
        version=__version__,
        target=TargetPlan(
            id=target.pk,
            name=target.name,
            base_url=target.base_url,
            model=target.model,
            protocol=target.protocol,
            verify_tls=target.verify_tls,
            has_api_key=bool(target.api_key),
            header_names=sorted(headers_of(target)),
            gpu_count=target.gpu_count,
            gpu_model=target.gpu_model,
            metrics=target.metrics,
            tags=target.tags,
        ),
        mix=MixPlan(id=mix.pk, name=mix.name, classes=mix.classes, shared_prefix_tokens=mix.shared_prefix_tokens),
        stages=list(campaign.stages),
        stage_s=campaign.stage_s,
        warmup_s=campaign.warmup_s,
        drain_s=campaign.drain_s,
        baseline_s=campaign.stage_s if campaign.baseline_s is None else campaign.baseline_s,
        timeout_s=campaign.timeout_s,
        criteria=msgspec.convert(campaign.criteria, list[CriterionPlan]),
        refine=RefinePlan(enabled=campaign.refine_enabled, budget_s=campaign.refine_budget_s),
        repeats=campaign.repeats,
        abort=AbortPlan(error_pct=campaign.abort_error_pct, after_s=campaign.abort_after_s),
        load=campaign.load,
        drivers=campaign.drivers,
        generation=campaign.generation,
        seed=campaign.seed,
    )


def _write(campaign: Campaign, data: CampaignInput) -> Campaign:
    problems = Problems()
    campaign.name = problems.text("name", data.name)
    target = Target.objects.current().filter(pk=data.target).first()
    if target is None:
        problems.add("target", f"must be the id of a target that is in use; there is none with id {data.target}")
    mix = Mix.objects.current().filter(pk=data.mix).first()
    if mix is None:
        problems.add("mix", f"must be the id of a mix that is in use; there is none with id {data.mix}")
    _check_stages(problems, data.stages)
    _check_times(problems, data)
    _check_criteria(problems, data.criteria)
    problems.number("repeats", data.repeats, 1, 10)
    problems.number("seed", data.seed, 0, SEED_MAX)
    if data.load == "open":
        problems.add("load", 'must be "closed": open-loop campaigns are not available yet')
    elif data.load != "closed":
        problems.add("load", 'must be "closed"')
    campaign.drivers = [problems.queue(f"drivers[{place}]", queue) for place, queue in enumerate(data.drivers)]
    if len(data.drivers) > 1:
        problems.add("drivers", "must be at most one queue: load from several hosts is not available yet")
    _check_generation(problems, data.generation)
    problems.stop()
    assert target is not None and mix is not None
    campaign.target = target
    campaign.mix = mix
    campaign.stages = data.stages
    campaign.stage_s = data.stage_s
    campaign.warmup_s = data.warmup_s
    campaign.drain_s = data.drain_s
    campaign.baseline_s = data.baseline_s
    campaign.timeout_s = data.timeout_s
    campaign.criteria = [criterion.as_dict() for criterion in data.criteria]
    campaign.refine_enabled = data.refine.enabled
    campaign.refine_budget_s = data.refine.budget_s
    campaign.repeats = data.repeats
    campaign.abort_error_pct = data.abort.error_pct
    campaign.abort_after_s = data.abort.after_s
    campaign.load = data.load
    campaign.generation = data.generation
    campaign.seed = data.seed
    campaign.save()
    return campaign


def _check_stages(problems: Problems, stages: Sequence[int]) -> None:
    if not 1 <= len(stages) <= STAGES_MAX:
        problems.add("stages", f"must be 1 to {STAGES_MAX} numbers of users, not {len(stages)}")
    if any(not 1 <= users <= CONCURRENCY_MAX for users in stages):
        problems.add("stages", f"must be whole numbers from 1 to {CONCURRENCY_MAX}")
    for before, after in pairwise(stages):
        if after <= before:
            problems.add("stages", f"must rise from each to the next, but {after} follows {before}")
            break


def _check_times(problems: Problems, data: CampaignInput) -> None:
    problems.number("stage_s", data.stage_s, 0, DAY_S, unit="s", above=True)
    problems.number("warmup_s", data.warmup_s, 0, DAY_S, unit="s")
    problems.number("drain_s", data.drain_s, 0, DAY_S, unit="s")
    if data.baseline_s is not None:
        problems.number("baseline_s", data.baseline_s, 0, DAY_S, unit="s", above=True)
    problems.number("timeout_s", data.timeout_s, 0, DAY_S, unit="s", above=True)
    problems.number("refine.budget_s", data.refine.budget_s, 0, 7 * DAY_S, unit="s")
    problems.number("abort.error_pct", data.abort.error_pct, 0, 100, unit="%", above=True)
    problems.number("abort.after_s", data.abort.after_s, 0, DAY_S, unit="s")


def _check_criteria(problems: Problems, criteria: Sequence[CriterionPlan]) -> None:
    if not 1 <= len(criteria) <= CRITERIA_MAX:
        problems.add("criteria", f"must be 1 to {CRITERIA_MAX} criteria, not {len(criteria)}")
    seen: set[tuple[str, str, bool]] = set()
    for place, one in enumerate(criteria):
        try:
            Criterion(one.metric, one.stat, one.max_degradation_pct, one.max_value)
        except ValueError as error:
            problems.add(f"criteria[{place}]", f"cannot be judged: {error}")
        # The analysis reads no statistic of the failure share.
        key = (one.metric, "" if one.metric == FAILURE_METRIC else one.stat, one.max_value is None)
        if key in seen:
            problems.add(f"criteria[{place}]", f"says {one.metric} {one.stat} a second time; keep one of them")
        seen.add(key)


def _check_generation(problems: Problems, generation: dict[str, Any]) -> None:
    problems.json("generation", generation)
    for key in sorted(SET_ELSEWHERE & generation.keys()):
        problems.add("generation", f"must not hold {key}: Brimline sets it itself")
