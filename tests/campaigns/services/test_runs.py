"""A run is described for the API without secrets; its results and events are read as they were stored."""

from __future__ import annotations

import json

import pytest

from campaigns.models import Run, RunEvent, RunResult, RunState
from campaigns.services.cancel import cancel_run
from campaigns.services.errors import Conflict
from campaigns.services.plans import create_campaign
from campaigns.services.runs import describe_run, events_after, results_of
from campaigns.services.targets import update_target
from tests.campaigns.services.builders import (
    campaign_input,
    make_campaign,
    make_mix,
    make_run,
    make_target,
    make_user,
    target_input,
)

pytestmark = pytest.mark.django_db


def test_a_queued_run() -> None:
    shape = describe_run(make_run(label="nightly", deployment={"image": "v1"}))
    assert (shape["state"], shape["label"], shape["deployment"]) == ("queued", "nightly", {"image": "v1"})
    assert (shape["target_name"], shape["mix_name"], shape["campaign_name"]) == ("t", "x", "c")
    assert shape["progress"]["phase"] == "queued"
    assert shape["result"] is shape["started_at"] is shape["ended_at"] is None
    assert shape["created_by"] == "ann"
    assert shape["links"]["self"] == f"/api/v1/runs/{shape['id']}"
    assert json.dumps(shape)


def test_a_run_that_is_over_says_who_stopped_it_and_has_no_progress() -> None:
    run = cancel_run(make_run(), make_user("bob"))
    shape = describe_run(run)
    assert (shape["state"], shape["progress"], shape["cancel_requested_by"]) == ("cancelled", None, "bob")
    assert shape["end_reason"] == "Cancelled by bob before it started"


def test_a_run_keeps_the_names_that_it_started_with() -> None:
    campaign = make_campaign()
    run = make_run(campaign)
    update_target(campaign.target, target_input(name="renamed"))
    run.refresh_from_db()
    assert describe_run(run)["target_name"] == "t"


def test_no_secret_of_the_target_is_in_it() -> None:
    target = make_target(api_key="sk-TEST-123", headers={"X-Auth-Token": "tok-456"})
    run = make_run(create_campaign(make_user(), campaign_input(target, make_mix())))
    text = json.dumps(describe_run(run))
    assert "sk-TEST-123" not in text and "tok-456" not in text
    assert describe_run(run)["plan"]["target"]["has_api_key"] is True


def test_results_are_the_stored_document_and_the_headline_comes_from_them() -> None:
    run = make_run()
    document = {"verdict": "ok", "stages": []}
    RunResult.objects.create(
        run=run,
        verdict="ok",
        load_line=24,
        load_line_low=22,
        load_line_high=27,
        relation="=",
        text="24",
        document=document,
    )
    run = Run.objects.get(pk=run.pk)
    assert results_of(run) == document
    assert describe_run(run)["result"] == {
        "verdict": "ok",
        "load_line": 24,
        "low": 22,
        "high": 27,
        "relation": "=",
        "text": "24",
    }


def test_without_results_it_says_why_there_are_none() -> None:
    run = make_run()
    with pytest.raises(Conflict, match="not analysed yet: it is queued"):
        results_of(run)
    Run.objects.end(run.pk, RunState.FAILED, "the target is gone")
    with pytest.raises(Conflict, match="has no results: failed: the target is gone"):
        results_of(Run.objects.get(pk=run.pk))


def test_events_come_in_order_after_the_last_one_that_was_seen() -> None:
    run, other = make_run(), make_run(Run.objects.get().campaign)
    for place in range(3):
        RunEvent.objects.create(run=run, kind="stage", message=str(place), data={"place": place})
    RunEvent.objects.create(run=other, kind="stage", message="of another run")
    seen = events_after(run, 0, 2)
    assert [event["message"] for event in seen] == ["Launched by ann", "0"]
    rest = events_after(run, seen[-1]["id"], 100)
    assert [(event["message"], event["data"]) for event in rest] == [("1", {"place": 1}), ("2", {"place": 2})]
    assert events_after(run, rest[-1]["id"], 100) == []
    assert json.dumps(rest)
