"""Campaigns are checked field by field; a frozen plan is a copy that no later edit changes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from campaigns.models.plan import RunPlan
from campaigns.services.errors import InvalidInput
from campaigns.services.mixes import archive_mix, update_mix
from campaigns.services.plans import create_campaign, describe_campaign, freeze, update_campaign
from campaigns.services.targets import update_target
from tests.campaigns.services.builders import (
    campaign_input,
    make_campaign,
    make_mix,
    make_target,
    make_user,
    mix_input,
    target_input,
)
from webapp.version import __version__

pytestmark = pytest.mark.django_db

TTFT = {"metric": "ttft_ms", "stat": "p50", "max_degradation_pct": 50}


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"name": " "}, "name"),
        ({"stages": []}, "stages"),
        ({"stages": [5, 5]}, "stages"),
        ({"stages": [5, 1]}, "stages"),
        ({"stages": [0, 1]}, "stages"),
        ({"stages": [1, 10_001]}, "stages"),
        ({"stages": list(range(1, 52))}, "stages"),
        ({"stage_s": 0}, "stage_s"),
        ({"stage_s": 86_401}, "stage_s"),
        ({"stage_s": float("nan")}, "stage_s"),
        ({"warmup_s": -1}, "warmup_s"),
        ({"drain_s": float("inf")}, "drain_s"),
        ({"baseline_s": 0}, "baseline_s"),
        ({"timeout_s": 0}, "timeout_s"),
        ({"criteria": []}, "criteria"),
        ({"criteria": [TTFT, TTFT]}, "criteria[1]"),
        ({"criteria": [{"metric": "speed", "stat": "p50", "max_value": 1}]}, "criteria[0]"),
        ({"criteria": [{"metric": "ttft_ms", "stat": "median", "max_value": 1}]}, "criteria[0]"),
        ({"criteria": [{"metric": "ttft_ms", "stat": "p50"}]}, "criteria[0]"),
        ({"criteria": [TTFT | {"max_value": 1}]}, "criteria[0]"),
        ({"criteria": [TTFT | {"max_degradation_pct": -5}]}, "criteria[0]"),
        ({"criteria": [{"metric": "failure_pct", "stat": "mean", "max_degradation_pct": 5}]}, "criteria[0]"),
        ({"refine": {"budget_s": -1}}, "refine.budget_s"),
        ({"repeats": 0}, "repeats"),
        ({"repeats": 11}, "repeats"),
        ({"abort": {"error_pct": 0}}, "abort.error_pct"),
        ({"abort": {"error_pct": 101}}, "abort.error_pct"),
        ({"load": "open"}, "load"),
        ({"load": "tidal"}, "load"),
        ({"drivers": ["a", "b"]}, "drivers"),
        ({"drivers": ["a b"]}, "drivers[0]"),
        ({"generation": {"stream": False}}, "generation"),
        ({"generation": {"x": "\x00"}}, "generation"),
        ({"seed": 2**31}, "seed"),
        ({"target": 10**9}, "target"),
        ({"mix": 0}, "mix"),
        ({"mix": 2**70}, "mix"),
    ],
)
def test_a_bad_field_is_named(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        make_campaign(**changes)
    assert list(caught.value.fields) == [field]


def test_open_loop_says_that_it_is_not_available_yet() -> None:
    with pytest.raises(InvalidInput, match="not available yet"):
        make_campaign(load="open")


def test_an_archived_mix_cannot_be_chosen() -> None:
    target, mix = make_target(), make_mix()
    archive_mix(mix)
    with pytest.raises(InvalidInput) as caught:
        create_campaign(make_user(), campaign_input(target, mix))
    assert list(caught.value.fields) == ["mix"]


def test_a_campaign_is_described_in_the_fields_that_it_takes() -> None:
    campaign = make_campaign(
        stages=[2, 4],
        baseline_s=60,
        criteria=[TTFT, {"metric": "e2e_ms", "stat": "p99", "max_value": 2000}],
        abort={"error_pct": 10, "after_s": 5},
        generation={"temperature": 0.5},
        drivers=["host.a"],
    )
    campaign.refresh_from_db()
    shape = describe_campaign(campaign)
    given = campaign_input(campaign.target, campaign.mix)
    taken = {name: shape[name] for name in given.__struct_fields__}
    again = update_campaign(campaign, campaign_input(campaign.target, campaign.mix, **taken))
    assert describe_campaign(again) | {"updated_at": None} == shape | {"updated_at": None}
    assert json.dumps(shape)


def test_no_later_edit_changes_a_frozen_plan() -> None:
    campaign = make_campaign(generation={"temperature": 0})
    plan = freeze(campaign).as_dict()
    update_target(campaign.target, target_input(base_url="http://127.0.0.1:9/v1", model="other"))
    update_mix(campaign.mix, mix_input(shared_prefix_tokens=7))
    update_campaign(campaign, campaign_input(campaign.target, campaign.mix, stages=[3], generation={"top_p": 1}))
    kept = RunPlan.from_dict(plan)
    assert (kept.target.base_url, kept.target.model) == ("http://127.0.0.1:8000/v1", "m")
    assert kept.mix.shared_prefix_tokens == 0
    assert (kept.stages[0], kept.generation) == (1, {"temperature": 0})


def test_a_frozen_plan_has_no_secret_and_says_which_version_made_it() -> None:
    target = make_target(api_key="sk-secret-1", headers={"X-A": "tok-456"})
    campaign = create_campaign(make_user(), campaign_input(target, make_mix()))
    plan = freeze(campaign)
    assert (plan.target.has_api_key, plan.target.header_names, plan.version) == (True, ["X-A"], __version__)
    assert "sk-secret-1" not in json.dumps(plan.as_dict()) and "tok-456" not in json.dumps(plan.as_dict())


def test_the_baseline_is_as_long_as_a_stage_unless_said_otherwise() -> None:
    campaign = make_campaign(stage_s=90)
    assert freeze(campaign).baseline_s == 90
    campaign.baseline_s = 600
    assert freeze(campaign).baseline_s == 600
