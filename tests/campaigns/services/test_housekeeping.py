"""Lost workers' runs end, and queued runs reach a worker without any queue growing."""

from __future__ import annotations

import uuid
from datetime import timedelta

import pytest
from django.utils import timezone

from campaigns.models import Run, RunState, StageKind, StageState, WorkerHost
from campaigns.models.run import LOST_AFTER_S
from campaigns.services import conduct
from campaigns.services.cancel import cancel_run
from campaigns.services.enqueue import quick_connection
from campaigns.services.housekeeping import mark_lost_runs, start_queued_runs
from campaigns.services.plans import create_campaign
from campaigns.services.progress import progress_of
from campaigns.services.sequence import PlannedStage
from tests.campaigns.services.builders import (
    campaign_input,
    make_campaign,
    make_mix,
    make_run,
    make_target,
    make_user,
)
from workers import heartbeat

pytestmark = pytest.mark.django_db


def fall_silent(run: Run) -> None:
    Run.objects.filter(pk=run.pk).update(heartbeat_at=timezone.now() - timedelta(seconds=LOST_AFTER_S + 1))


def lost_run() -> Run:
    run = make_run()
    hold = conduct.take_run(run.pk, "celery@gone")
    assert hold is not None
    conduct.begin_stage(hold, PlannedStage(StageKind.BASELINE, 1, 1, 1))
    fall_silent(run)
    return run


def test_a_run_of_a_silent_worker_is_interrupted() -> None:
    run = lost_run()
    assert mark_lost_runs() == [run]
    run.refresh_from_db()
    assert run.state == RunState.INTERRUPTED
    assert "celery@gone" in run.end_reason and "Resume" in run.end_reason
    assert run.stages.get().state == StageState.PARTIAL
    assert run.events.last().kind == "interrupted"  # type: ignore[union-attr]
    assert mark_lost_runs() == []


def test_a_run_whose_worker_speaks_is_left_alone() -> None:
    run = make_run()
    assert conduct.take_run(run.pk, "w")
    assert mark_lost_runs() == []


def test_a_lost_run_that_was_to_stop_is_cancelled() -> None:
    run = lost_run()
    cancel_run(run, make_user("bea"))
    mark_lost_runs()
    run.refresh_from_db()
    assert run.state == RunState.CANCELLED
    assert run.end_reason.startswith("Cancelled by bea")


def waiting(queue: str) -> int:
    with quick_connection() as connection:
        return int(connection.default_channel.queue_declare(queue, passive=False).message_count)


def take(queue: str) -> None:
    """The one message that waits there."""
    with quick_connection() as connection:
        assert connection.default_channel.basic_get(queue, no_ack=True) is not None
        connection.default_channel.queue_delete(queue)


def serve(*queues: str, name: str = "w@host") -> None:
    heartbeat.write(name, list(queues), timezone.now())


def test_queued_runs_are_sent_again_and_no_queue_grows() -> None:
    queue = f"test.{uuid.uuid4()}"
    serve(queue)
    campaign = make_campaign(target=make_target(name="other", queue=queue).pk)
    first, _second = make_run(campaign), make_run(campaign)
    assert waiting(queue) == 0
    assert start_queued_runs() == [first]
    assert start_queued_runs() == []
    assert waiting(queue) == 1
    take(queue)


def test_a_run_that_nobody_serves_holds_up_no_other_run_of_its_target() -> None:
    served, unserved = f"test.{uuid.uuid4()}", f"test.{uuid.uuid4()}"
    target = make_target(name="other", queue=served)
    serve(served)
    serve(unserved, name="gone@host")
    WorkerHost.objects.filter(name="gone@host").update(heartbeat_at=timezone.now() - timedelta(minutes=1))
    mix = make_mix()
    elsewhere = create_campaign(make_user(), campaign_input(target, mix, drivers=[unserved]))
    here = create_campaign(make_user(), campaign_input(target, mix))
    stuck, first, second = make_run(elsewhere), make_run(here), make_run(here)
    assert start_queued_runs() == [first]
    take(served)
    cancel_run(first, make_user())
    assert start_queued_runs() == [second]
    take(served)
    # It says so once, however often it is looked at, and goes first as soon as somebody serves it.
    assert list(stuck.events.values_list("kind", flat=True)) == ["queued", "unserved"]
    words = stuck.events.get(kind="unserved").message
    assert f"no worker serves the queue {unserved}" in words and f"-Q {unserved}" in words and "driver" in words
    assert words == f"Not started: {progress_of(stuck).waiting}"
    serve(served, unserved)
    assert progress_of(stuck).waiting is None
    assert start_queued_runs() == [stuck]
    take(unserved)


def test_a_run_on_a_busy_target_waits() -> None:
    campaign = make_campaign(target=make_target(name="other", queue=f"test.{uuid.uuid4()}").pk)
    first, _second = make_run(campaign), make_run(campaign)
    assert conduct.take_run(first.pk, "w")
    assert start_queued_runs() == []
