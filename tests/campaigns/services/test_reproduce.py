"""The plan that reproduces a stage is one that the load generator takes, and holds no secret."""

from __future__ import annotations

import json

import pytest

from campaigns.services.reproduce import reproduction_of
from tests.campaigns.builders import make_campaign, make_run, make_target
from workers.loadgen.plan import ClosedLoad, parse_plan

pytestmark = pytest.mark.django_db


def test_the_plan_is_one_of_the_load_generator_at_the_load_line():
    run = make_run(ticks=False)
    found = reproduction_of(run)
    plan = parse_plan(found.plan)
    assert plan.load == ClosedLoad(concurrency=22)
    assert found.command == "python -m workers.loadgen PLAN.json --out OUT"


def test_secrets_are_named_and_never_given():
    target = make_target(api_key="sk-secret-1", headers='{"X-Key": "hidden-2"}')
    found = reproduction_of(make_run(make_campaign(target=target), ticks=False))
    text = json.dumps(found.plan) + found.command
    assert "sk-secret-1" not in text and "hidden-2" not in text
    assert parse_plan(found.plan).api_key_env == "TARGET_API_KEY"
    assert found.command.startswith("TARGET_API_KEY=")
    assert found.missing_headers == ("X-Key",)


def test_what_preflight_found_unsupported_is_taken_out():
    run = make_run(ticks=False, preflight={"ok": True, "detected": {"unsupported_fields": ["ignore_eos"]}})
    assert reproduction_of(run).plan["request"] == {"temperature": 0, "ignore_eos": None}


def test_prompts_are_of_the_size_that_the_run_sent():
    run = make_run(ticks=False)
    learnt = {"words_per_token": 0.75, "overhead_tokens": 11.0}
    first = run.stages.earliest("index")
    first.summary = {**(first.summary or {}), "calibration": {**learnt, "samples": 6}}
    first.save()
    assert reproduction_of(run).plan["calibration"] == learnt
