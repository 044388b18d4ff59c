"""A run's transitions are guarded, and the database refuses what must never be."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest
from django.db import IntegrityError, connection, transaction
from django.utils import timezone

from campaigns.models import ACTIVE_STATES, END_STATES, Campaign, Mix, Run, RunState, Stage, StageState, Target
from campaigns.models.run import ALLOWED_FROM, LOST_AFTER_S

pytestmark = pytest.mark.django_db


def make_campaign(name: str = "c") -> Campaign:
    target = Target.objects.create(name=f"target {name}", base_url="http://127.0.0.1:1/v1", model="m")
    mix = Mix.objects.create(name=f"mix {name}", classes=[{"name": "a", "weight": 1}])
    return Campaign.objects.create(name=name, target=target, mix=mix)


def make_run(campaign: Campaign | None = None) -> Run:
    campaign = campaign or make_campaign()
    return Run.objects.create(campaign=campaign, target=campaign.target, plan={})


def move_to(run: Run, state: RunState) -> None:
    """Put a fresh run into `state` by the transitions alone."""
    if state == RunState.QUEUED:
        return
    claim = Run.objects.claim(run.pk, "w")
    assert claim
    if state in (RunState.ANALYSING, RunState.DONE):
        assert Run.objects.advance(run.pk, claim, RunState.ANALYSING)
    if state in END_STATES:
        assert Run.objects.end(run.pk, state, "because", claim)


def test_a_run_is_claimed_once() -> None:
    run = make_run()
    assert Run.objects.claim(run.pk, "one")
    assert Run.objects.claim(run.pk, "two") is None
    run.refresh_from_db()
    assert (run.state, run.worker) == (RunState.RUNNING, "one")
    assert run.started_at and run.heartbeat_at


def test_a_target_carries_one_run_at_a_time() -> None:
    campaign = make_campaign()
    first, second = make_run(campaign), make_run(campaign)
    claim = Run.objects.claim(first.pk, "w")
    assert claim
    assert Run.objects.claim(second.pk, "w") is None
    assert not Run.objects.startable().exists()
    Run.objects.end(first.pk, RunState.CANCELLED, "stopped", claim)
    assert list(Run.objects.startable()) == [second]
    assert Run.objects.claim(second.pk, "w")


def test_startable_are_the_queued_runs_of_free_targets_the_oldest_first() -> None:
    one, other, busy = (make_campaign(name) for name in ("one", "other", "busy"))
    runs = [make_run(campaign) for campaign in (one, one, other, busy, busy)]
    assert Run.objects.claim(runs[3].pk, "w")
    assert list(Run.objects.startable()) == runs[:3]


def test_a_run_that_a_person_stopped_is_never_claimed() -> None:
    run = make_run()
    Run.objects.filter(pk=run.pk).update(cancel_requested_at=timezone.now())
    assert Run.objects.claim(run.pk, "w") is None


@pytest.mark.parametrize("start", RunState)
@pytest.mark.parametrize("end", END_STATES)
def test_only_allowed_ends_happen(start: RunState, end: RunState) -> None:
    run = make_run()
    move_to(run, start)
    allowed = start in ALLOWED_FROM[end]
    assert Run.objects.end(run.pk, end, "words") is allowed
    run.refresh_from_db()
    assert run.state == (end if allowed else start)
    assert run.is_over is (run.state in END_STATES)
    if allowed:
        assert run.end_reason == "words" and run.ended_at


def test_an_end_needs_words_and_an_end_state() -> None:
    run = make_run()
    with pytest.raises(ValueError, match="reason"):
        Run.objects.end(run.pk, RunState.CANCELLED, "")
    with pytest.raises(ValueError, match="does not end"):
        Run.objects.end(run.pk, RunState.RUNNING, "x")


def test_a_stale_claim_changes_nothing() -> None:
    run = make_run()
    old = Run.objects.claim(run.pk, "w")
    assert old
    Run.objects.end(run.pk, RunState.INTERRUPTED, "lost")
    assert Run.objects.requeue(run.pk)
    new = Run.objects.claim(run.pk, "w2")
    assert new and new != old
    assert not Run.objects.beat(run.pk, old)
    assert not Run.objects.advance(run.pk, old, RunState.ANALYSING)
    assert not Run.objects.end(run.pk, RunState.FAILED, "x", old)
    assert Run.objects.beat(run.pk, new)


def test_only_silent_active_runs_are_lost() -> None:
    silent, lively, queued = (make_run(make_campaign(name)) for name in ("silent", "lively", "queued"))
    for run in (silent, lively):
        assert Run.objects.claim(run.pk, "w")
    long_ago = timezone.now() - timedelta(seconds=LOST_AFTER_S + 1)
    Run.objects.filter(pk=silent.pk).update(heartbeat_at=long_ago)
    assert list(Run.objects.lost()) == [silent]
    assert queued.state == RunState.QUEUED


@pytest.mark.parametrize(
    "broken",
    [
        {"state": "dancing"},
        {"state": RunState.DONE},
        {"state": RunState.DONE, "ended_at": timezone.now()},
        {"end_reason": "still queued"},
        {"state": RunState.RUNNING},
    ],
    ids=["unknown state", "end without time", "end without reason", "reason without end", "active without claim"],
)
def test_the_database_refuses_what_must_never_be(broken: dict[str, object]) -> None:
    run = make_run()
    with pytest.raises(IntegrityError), transaction.atomic():
        Run.objects.filter(pk=run.pk).update(**broken)


def test_two_runs_cannot_be_active_on_a_target_even_by_force() -> None:
    campaign = make_campaign()
    first, second = make_run(campaign), make_run(campaign)
    assert Run.objects.claim(first.pk, "w")
    active = Run.objects.values("state", "claim", "started_at", "heartbeat_at").get(pk=first.pk)
    with pytest.raises(IntegrityError), transaction.atomic():
        Run.objects.filter(pk=second.pk).update(**active)
    assert active["state"] in ACTIVE_STATES


def test_a_run_has_one_running_stage_and_a_whole_one_has_a_summary() -> None:
    run = make_run()
    stage = Stage.objects.create(run=run, index=0, kind="baseline", concurrency=1, warmup_s=1, measure_s=1)
    with pytest.raises(IntegrityError), transaction.atomic():
        Stage.objects.create(run=run, index=1, kind="ladder", concurrency=2, warmup_s=1, measure_s=1)
    with pytest.raises(IntegrityError), transaction.atomic():
        Stage.objects.filter(pk=stage.pk).update(state=StageState.DONE)
    assert not Stage.objects.whole().exists()


@pytest.mark.django_db(transaction=True)
def test_many_workers_claim_at_once_and_one_has_it() -> None:
    run = make_run()
    claims: list[object] = []
    barrier = threading.Barrier(6)

    def work(name: str) -> None:
        try:
            barrier.wait()
            claims.append(Run.objects.claim(run.pk, name))
        finally:
            connection.close()

    threads = [threading.Thread(target=work, args=(f"w{n}",)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(claim is not None for claim in claims) == 1
