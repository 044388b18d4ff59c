"""The conductor's writes keep whole stages whole, and a conductor without the claim writes nothing."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import pytest

from campaigns.models import RequestLog, Run, RunState, Stage, StageKind, StageState
from campaigns.services import conduct
from campaigns.services.conduct import ClaimLost, Hold
from campaigns.services.sequence import PlannedStage
from tests.campaigns.services.builders import make_run

pytestmark = pytest.mark.django_db

PLANNED = PlannedStage(StageKind.LADDER, 4, 1, 2)


def take(run: Run) -> Hold:
    hold = conduct.take_run(run.pk, "w")
    assert hold is not None
    return hold


def test_a_finished_stage_has_its_summary_and_its_log() -> None:
    run = make_run()
    hold = take(run)
    stage = conduct.begin_stage(hold, PLANNED)
    conduct.record_tick(stage, {"t_s": 1.0, "in_flight": 4})
    conduct.record_tick(stage, {"t_s": 1.0, "in_flight": 4})
    conduct.finish_stage(hold, stage, {"window_s": 2}, b"log", 7)
    stage = run.stages.get()
    assert (stage.state, stage.index, stage.summary, stage.ticks.count()) == (StageState.DONE, 0, {"window_s": 2}, 1)
    assert (stage.request_log.rows, bytes(stage.request_log.arrow)) == (7, b"log")
    assert list(run.events.values_list("kind", flat=True)) == ["queued", "started", "stage_started", "stage_done"]


def test_a_run_that_is_taken_again_leaves_the_half_stage_behind() -> None:
    run = make_run()
    hold = take(run)
    conduct.begin_stage(hold, PLANNED)
    Run.objects.end(run.pk, RunState.INTERRUPTED, "lost", hold.claim)
    Run.objects.requeue(run.pk)
    second = conduct.begin_stage(take(run), PLANNED)
    assert second.index == 1
    assert list(run.stages.values_list("index", "state")) == [(0, StageState.PARTIAL), (1, StageState.RUNNING)]
    assert [event.message for event in run.events.filter(kind="started")] == ["Started on w", "Resumed on w"]


@pytest.mark.parametrize(
    "write",
    [
        lambda hold, stage: conduct.begin_stage(hold, PLANNED),
        lambda hold, stage: conduct.finish_stage(hold, stage, {}, b"", 0),
        lambda hold, stage: conduct.leave_stage_partial(hold, stage, "because"),
        lambda hold, stage: conduct.record_preflight(hold, {"ok": True}, False),
        lambda hold, stage: conduct.begin_analysis(hold),
        lambda hold, stage: conduct.end_run(hold, RunState.FAILED, "because"),
        lambda hold, stage: conduct.tell(hold, "kind", "words"),
    ],
)
def test_nothing_is_written_without_the_claim(write: Callable[[Hold, Stage], object]) -> None:
    run = make_run()
    stage = conduct.begin_stage(take(run), PLANNED)
    before = (run.events.count(), Stage.objects.count(), RequestLog.objects.count())
    with pytest.raises(ClaimLost):
        write(Hold(run.pk, uuid.uuid4()), stage)
    run.refresh_from_db()
    stage.refresh_from_db()
    assert (run.events.count(), Stage.objects.count(), RequestLog.objects.count()) == before
    assert (run.state, run.preflight, stage.state) == (RunState.RUNNING, None, StageState.RUNNING)


def test_the_end_of_a_run_ends_its_stage() -> None:
    run = make_run()
    hold = take(run)
    conduct.begin_stage(hold, PLANNED)
    conduct.end_run(hold, RunState.CANCELLED, "Cancelled by ann")
    run.refresh_from_db()
    assert (run.state, run.end_reason, run.claim) == (RunState.CANCELLED, "Cancelled by ann", None)
    assert run.stages.get().state == StageState.PARTIAL


def test_what_servers_send_can_be_kept() -> None:
    run = make_run()
    conduct.record_event(run, "kind", "a\0b\ud800", {"k\0": ["\udfff", 1, None, {"x": "\0"}]})
    event = run.events.get(kind="kind")
    assert event.message == "a\ufffdb?"
    assert event.data == {"k\ufffd": ["?", 1, None, {"x": "\ufffd"}]}
