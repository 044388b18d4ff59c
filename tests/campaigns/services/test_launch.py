"""A launch is one run however often it is sent; a stop is heard once; only an interrupted run is resumed."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from django.db import connection

from campaigns.models import Campaign, Run, RunEvent, RunState
from campaigns.services.cancel import cancel_run
from campaigns.services.errors import Conflict, InvalidInput
from campaigns.services.inputs import LaunchInput
from campaigns.services.launch import launch_run
from campaigns.services.mixes import archive_mix
from campaigns.services.resume import resume_run
from campaigns.services.targets import update_target
from tests.campaigns.services.builders import make_campaign, make_run, make_user, target_input

pytestmark = pytest.mark.django_db


def test_a_launch_queues_a_run_with_a_frozen_plan() -> None:
    campaign = make_campaign()
    run = make_run(campaign, label=" nightly ", notes="line 1\nline 2", deployment={"image": "v1"})
    run.refresh_from_db()
    assert (run.state, run.label, run.deployment) == (RunState.QUEUED, "nightly", {"image": "v1"})
    assert run.frozen_plan.target.id == campaign.target_id
    assert [(event.kind, event.message) for event in run.events.all()] == [("queued", "Launched by ann")]


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"label": "x" * 121}, "label"),
        ({"label": "a\nb"}, "label"),
        ({"notes": "x" * 10_001}, "notes"),
        ({"notes": "\x00"}, "notes"),
        ({"deployment": {"a": "\x00"}}, "deployment"),
        ({"deployment": {"a": "\ud800"}}, "deployment"),
        ({"deployment": {"a": float("nan")}}, "deployment"),
        ({"deployment": {"a": "x" * 64_000}}, "deployment"),
        ({"idempotency_key": ""}, "idempotency_key"),
        ({"idempotency_key": "k" * 101}, "idempotency_key"),
    ],
)
def test_a_bad_field_is_named(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        make_run(**changes)
    assert list(caught.value.fields) == [field]
    assert not Run.objects.exists()


def test_the_same_key_is_the_same_run_of_a_campaign() -> None:
    campaign = make_campaign()
    run = make_run(campaign, idempotency_key="k")
    assert make_run(campaign, idempotency_key="k") == run
    assert make_run(campaign, idempotency_key="other") != run
    assert make_run(campaign) != make_run(campaign)


@pytest.mark.django_db(transaction=True)
def test_a_double_click_is_one_run_and_one_message(monkeypatch: pytest.MonkeyPatch) -> None:
    campaign, user = make_campaign(), make_user()
    sent: list[int] = []
    monkeypatch.setattr("campaigns.services.launch.enqueue", lambda run: sent.append(run.pk))
    start = threading.Barrier(4)
    runs: list[Run] = []

    def launch() -> None:
        start.wait()
        try:
            runs.append(launch_run(campaign, user, LaunchInput(idempotency_key="k")))
        finally:
            connection.close()

    threads = [threading.Thread(target=launch) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(runs) == 4
    assert {run.pk for run in runs} == set(sent)
    assert Run.objects.count() == len(sent) == 1


def test_a_campaign_whose_mix_is_archived_is_not_launched() -> None:
    campaign = make_campaign()
    archive_mix(campaign.mix)
    with pytest.raises(Conflict, match="mix x is archived"):
        make_run(campaign)


def running(campaign: Campaign | None = None) -> Run:
    run = make_run(campaign)
    assert Run.objects.claim(run.pk, "w")
    return run


def test_a_queued_run_that_is_cancelled_never_starts() -> None:
    run = cancel_run(make_run(), make_user("bob"))
    assert (run.state, run.end_reason) == (RunState.CANCELLED, "Cancelled by bob before it started")
    assert run.ended_at is not None
    assert Run.objects.claim(run.pk, "w") is None
    assert not Run.objects.startable().exists()


def test_the_first_who_stops_a_running_run_is_remembered() -> None:
    run = cancel_run(running(), make_user("ann"))
    asked_at = run.cancel_requested_at
    assert run.state == RunState.RUNNING and asked_at is not None
    again = cancel_run(run, make_user("bob"))
    assert (again.cancel_requested_at, again.cancel_requested_by) == (asked_at, make_user("ann"))
    assert RunEvent.objects.filter(run=run, kind="cancel_requested").count() == 1


def test_a_run_that_is_over_is_not_cancelled_and_says_why_it_ended() -> None:
    run = cancel_run(make_run(), make_user("bob"))
    with pytest.raises(Conflict, match=r"already over .cancelled.: Cancelled by bob"):
        cancel_run(run, make_user())


def test_an_interrupted_run_goes_back_into_the_queue() -> None:
    run = running()
    Run.objects.end(run.pk, RunState.INTERRUPTED, "its worker was lost")
    run = resume_run(run, make_user())
    assert (run.state, run.end_reason, run.ended_at) == (RunState.QUEUED, "", None)
    assert Run.objects.claim(run.pk, "w")


def test_other_runs_are_not_resumed() -> None:
    run = running()
    with pytest.raises(Conflict, match=f"run {run.pk} is running"):
        resume_run(run, make_user())


def test_a_run_is_not_resumed_on_another_address() -> None:
    run = running()
    Run.objects.end(run.pk, RunState.INTERRUPTED, "its worker was lost")
    update_target(run.target, target_input(base_url="http://127.0.0.1:9/v1"))
    with pytest.raises(Conflict, match="address"):
        resume_run(run, make_user())
