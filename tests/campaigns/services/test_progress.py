"""How far a run is, at each point of its life."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from campaigns.models import Run, RunState, Stage, StageKind, StageState
from campaigns.services import conduct
from campaigns.services.conduct import Hold
from campaigns.services.progress import progress_of
from campaigns.services.sequence import PlannedStage
from tests.campaigns.services.builders import make_campaign, make_run

pytestmark = pytest.mark.django_db


def taken(**changes: object) -> tuple[Run, Hold]:
    """A run of 1, 4, 8 users, stages of 20 s after 2 s of warm-up."""
    values = {"stages": [1, 4, 8], "stage_s": 20, "warmup_s": 2, "baseline_s": 20, **changes}
    run = make_run(make_campaign(**values))
    hold = conduct.take_run(run.pk, "w")
    assert hold is not None
    run.refresh_from_db()
    return run, hold


def whole(hold: Hold, kind: StageKind, users: int, within: str | None = None, took_s: float = 25) -> None:
    stage = conduct.begin_stage(hold, PlannedStage(kind, users, 2, 20))
    conduct.finish_stage(hold, stage, {"window_s": 20}, b"", 0)
    start = timezone.now() - timedelta(seconds=100)
    Stage.objects.filter(pk=stage.pk).update(
        started_at=start, ended_at=start + timedelta(seconds=took_s), result={"within": within}
    )


def test_a_queued_run_has_all_before_it() -> None:
    progress = progress_of(make_run(make_campaign(stages=[1, 4, 8])))
    assert (progress.phase, progress.stage, progress.stages) == ("queued", None, 4)
    assert (progress.elapsed_s, progress.eta_s, progress.concurrency) == (None, None, None)


def test_before_the_first_stage_there_is_no_eta() -> None:
    run, _ = taken()
    progress = progress_of(run)
    assert (progress.phase, progress.stage, progress.stages, progress.eta_s) == ("preflight", None, 4, None)
    assert progress.elapsed_s is not None


def test_a_running_stage_shows_its_newest_line() -> None:
    run, hold = taken(refine={"enabled": False})
    whole(hold, StageKind.BASELINE, 1)
    stage = conduct.begin_stage(hold, PlannedStage(StageKind.LADDER, 4, 2, 20))
    conduct.record_tick(stage, {"t_s": 1.0, "phase": "warmup", "in_flight": 1, "by_outcome": {}})
    counts = {"ok": 3, "timeout": 2}
    line = {"t_s": 2.0, "phase": "measure", "in_flight": 4, "output_tokens_per_s": 80.5, "by_outcome": counts}
    conduct.record_tick(stage, line)
    progress = progress_of(run)
    assert (progress.phase, progress.stage, progress.stages) == ("measure", 2, 4)
    assert (progress.kind, progress.concurrency, progress.in_flight) == ("ladder", 4, 4)
    assert (progress.output_tokens_per_s, progress.requests_ok, progress.requests_failed) == (80.5, 3, 2)
    # Three stages of 20 s and 2 s of warm-up, the closing one half as long, each with the 3 s that the first took more.
    assert progress.eta_s == pytest.approx(25 + 25 + 15, abs=1)


def test_refinement_is_expected_once_a_stage_is_beyond() -> None:
    run, hold = taken()
    whole(hold, StageKind.BASELINE, 1, "within")
    whole(hold, StageKind.LADDER, 4, "within")
    assert progress_of(run).stages == 4
    whole(hold, StageKind.LADDER, 8, "beyond")
    progress = progress_of(run)
    # 6, and 5 or 7, and the closing baseline.
    assert (progress.phase, progress.stage, progress.stages) == ("between", 3, 6)


def test_an_ended_ladder_leaves_only_the_closing_baseline() -> None:
    run, hold = taken(refine={"enabled": False})
    whole(hold, StageKind.BASELINE, 1)
    conduct.begin_stage(hold, PlannedStage(StageKind.CLOSING, 1, 2, 10))
    progress = progress_of(run)
    assert (progress.stage, progress.stages) == (2, 2)


def test_a_partial_stage_is_to_be_done_again() -> None:
    run, hold = taken(refine={"enabled": False})
    whole(hold, StageKind.BASELINE, 1)
    stage = conduct.begin_stage(hold, PlannedStage(StageKind.LADDER, 4, 2, 20))
    conduct.leave_stage_partial(hold, stage, "the generator was killed")
    assert run.stages.filter(state=StageState.PARTIAL).exists()
    assert progress_of(run).stages == 4


def test_a_run_that_is_over_stands_still() -> None:
    run, hold = taken()
    conduct.end_run(hold, RunState.FAILED, "because")
    Run.objects.filter(pk=run.pk).update(started_at=timezone.now() - timedelta(hours=1), ended_at=timezone.now())
    run.refresh_from_db()
    progress = progress_of(run)
    assert (progress.phase, progress.eta_s) == ("over", None)
    assert progress.elapsed_s == pytest.approx(3600, abs=5)
