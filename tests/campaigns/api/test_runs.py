"""/runs: find, read, follow, cancel and resume runs, and read their results."""

from __future__ import annotations

from typing import Any

import pytest

from campaigns.models import Run, RunEvent, RunResult, RunState, Scope
from campaigns.services.inputs import CampaignInput
from campaigns.services.plans import update_campaign
from tests.campaigns.api.program import Program, end, error_of, make_campaign, make_run, start
from tests.campaigns.services.builders import make_mix, make_user

pytestmark = pytest.mark.django_db


def ids(program: Program, query: str) -> list[int]:
    response = program.get(f"/runs?{query}")
    assert response.status_code == 200, response.content
    return [run["id"] for run in response.json()["items"]]


def test_a_run_says_its_state_and_where_it_belongs() -> None:
    campaign = make_campaign()
    run = make_run(campaign, label="night")
    body = Program(Scope.READ).get(f"/runs/{run.pk}").json()
    assert (body["id"], body["campaign"], body["state"]) == (run.pk, campaign.pk, "queued")
    assert (body["label"], body["end_reason"], body["created_by"]) == ("night", "", make_user().username)
    assert body["created_at"] and body["started_at"] is body["ended_at"] is None
    end(run)
    body = Program(Scope.READ).get(f"/runs/{run.pk}").json()
    assert (body["state"], body["end_reason"]) == ("done", "ended as done")
    assert body["started_at"] and body["ended_at"]


def test_a_running_run_says_its_progress() -> None:
    run = make_run()
    start(run)
    progress = Program(Scope.READ).get(f"/runs/{run.pk}").json()["progress"]
    assert {"stage", "stages", "concurrency", "elapsed_s", "eta_s"} <= set(progress)


def test_runs_are_found_by_each_filter_and_by_all_of_them() -> None:
    one, other = make_campaign("one"), make_campaign("other")
    first, second, third = make_run(one, label="a"), make_run(one, label="b"), make_run(other, label="a")
    end(first, RunState.CANCELLED)
    program = Program(Scope.READ)
    assert ids(program, "") == [third.pk, second.pk, first.pk]
    assert ids(program, f"target={one.target_id}") == [second.pk, first.pk]
    assert ids(program, f"mix={other.mix_id}") == [third.pk]
    assert ids(program, f"campaign={one.pk}") == [second.pk, first.pk]
    assert ids(program, "state=cancelled") == [first.pk]
    assert ids(program, "label=a") == [third.pk, first.pk]
    assert ids(program, f"label=a&target={one.target_id}&state=cancelled") == [first.pk]
    assert ids(program, "target=999999") == ids(program, "label=") == []
    assert ids(program, "label=a&limit=1") == [third.pk]
    assert ids(program, f"label=a&limit=1&cursor={third.pk}") == [first.pk]


def test_the_mix_of_a_run_is_the_one_it_sent() -> None:
    campaign = make_campaign()
    run, sent = make_run(campaign), campaign.mix_id
    new = make_mix(name="new")
    update_campaign(campaign, CampaignInput(name="campaign", target=campaign.target_id, mix=new.pk))
    assert ids(Program(Scope.READ), f"mix={sent}") == [run.pk]
    assert ids(Program(Scope.READ), f"mix={new.pk}") == []


@pytest.mark.parametrize(
    ("query", "field"),
    [("state=sleeping", "state"), ("target=x", "target"), ("label=%00", "label"), ("lable=a", "lable")],
)
def test_a_wrong_filter_is_named(query: str, field: str) -> None:
    assert list(error_of(Program(Scope.READ).get(f"/runs?{query}"), 422)["fields"]) == [field]


def test_results_are_a_conflict_until_there_are_some_and_then_what_was_stored() -> None:
    run = make_run()
    program = Program(Scope.READ)
    assert "analysed" in error_of(program.get(f"/runs/{run.pk}/results"), 409)["message"]
    document: dict[str, Any] = {"run": run.pk, "verdict": "no_valid_stage", "stages": [], "findings": [{"rule": "x"}]}
    RunResult.objects.create(run=run, verdict="no_valid_stage", text="none", document=document)
    response = program.get(f"/runs/{run.pk}/results")
    assert response.status_code == 200
    assert response.json() == document


def test_events_are_replayed_in_order_from_any_place() -> None:
    run, other = make_run(make_campaign("one")), make_run(make_campaign("other"))
    for place in range(5):
        RunEvent.objects.create(run=run, kind="stage", message=f"stage {place}", data={"stage": place})
        RunEvent.objects.create(run=other, kind="stage", message="of another run")
    program = Program(Scope.READ)
    whole = program.get(f"/runs/{run.pk}/events").json()
    assert whole["next"] is None
    assert [event["message"] for event in whole["items"][-5:]] == [f"stage {place}" for place in range(5)]
    assert set(whole["items"][0]) == {"id", "at", "kind", "message", "data"}
    seen, after = [], 0
    while True:
        piece = program.get(f"/runs/{run.pk}/events?after={after}&limit=2").json()
        seen += piece["items"]
        if piece["next"] is None:
            break
        after = piece["next"]
    assert seen == whole["items"]
    assert program.get(f"/runs/{run.pk}/events?after={seen[-1]['id']}").json() == {"items": [], "next": None}
    assert program.get(f"/runs/{run.pk}/events").json() == whole


@pytest.mark.parametrize(("query", "field"), [("after=-1", "after"), ("limit=0", "limit"), ("before=3", "before")])
def test_a_wrong_place_to_start_is_named(query: str, field: str) -> None:
    run = make_run()
    assert list(error_of(Program(Scope.READ).get(f"/runs/{run.pk}/events?{query}"), 422)["fields"]) == [field]


def test_a_queued_run_is_cancelled_at_once_and_only_once() -> None:
    run = make_run()
    program = Program(Scope.LAUNCH)
    response = program.post(f"/runs/{run.pk}/cancel")
    assert response.status_code == 202
    assert response.json()["state"] == "cancelled" and "launch-bot" in response.json()["end_reason"]
    error = error_of(program.post(f"/runs/{run.pk}/cancel"), 409)
    assert error["code"] == "conflict" and "launch-bot" in error["message"]


def test_a_running_run_is_asked_to_stop_and_asking_again_is_harmless() -> None:
    run = make_run()
    start(run)
    program = Program(Scope.LAUNCH)
    assert program.post(f"/runs/{run.pk}/cancel").json()["state"] == "running"
    run.refresh_from_db()
    asked = run.cancel_requested_at
    assert asked is not None
    assert program.post(f"/runs/{run.pk}/cancel").status_code == 202
    run.refresh_from_db()
    assert run.cancel_requested_at == asked


def test_only_an_interrupted_run_is_resumed() -> None:
    run = make_run()
    program = Program(Scope.LAUNCH)
    assert "queued" in error_of(program.post(f"/runs/{run.pk}/resume"), 409)["message"]
    end(run, RunState.INTERRUPTED)
    response = program.post(f"/runs/{run.pk}/resume")
    assert response.status_code == 202
    assert response.json()["state"] == "queued"
    assert Run.objects.get().ended_at is None
