"""A run can be stopped at any moment, is never conducted twice, and goes on where a killed worker left it."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import Any

import psutil
import pytest
from django.conf import settings
from django.utils import timezone

from campaigns.analysis.summary import RunAnalysis
from campaigns.analysis.validity import StageInput
from campaigns.models import Run, RunState, StageTick
from campaigns.models.plan import RunPlan
from campaigns.models.run import LOST_AFTER_S
from campaigns.services.cancel import cancel_run
from campaigns.services.finish import analyse_stages
from campaigns.services.housekeeping import mark_lost_runs
from campaigns.services.resume import resume_run
from campaigns.services.runs import results_of
from tests.campaigns.services.builders import make_user
from tests.workers.conducting import conducted, conducting, environment, kinds, launch, measured, until
from tests.workers.engine import Engine, serving, steady
from workers import shutdown

pytestmark = pytest.mark.django_db(transaction=True)

# Long enough that no test waits for its end.
LONG: dict[str, Any] = {"stage_s": 60, "baseline_s": 60}


def test_a_run_that_was_cancelled_in_the_queue_never_starts() -> None:
    with serving(Engine(steady)) as engine:
        run = launch(engine)
        cancel_run(run, make_user("bea"))
        conducted(run)
    assert (run.state, run.end_reason) == (RunState.CANCELLED, "Cancelled by bea before it started")
    assert engine.requests == 0


def test_a_cancel_reaches_the_preflight() -> None:
    with serving(Engine(lambda _: (60.0, 0.0))) as engine:
        run = launch(engine)
        with conducting(run):
            until(lambda: engine.in_flight > 0, "the preflight's request")
            cancel_run(run, make_user("bea"))
    assert (run.state, run.end_reason) == (RunState.CANCELLED, "Cancelled by bea during the preflight")
    assert not run.stages.exists()


def test_a_cancel_ends_the_stage_and_keeps_what_was_finished() -> None:
    with serving(Engine(steady)) as engine:
        run = launch(engine, stages=[1, 6], stage_s=60)
        with conducting(run):
            until(lambda: engine.peak == 6, "the second stage")
            cancel_run(run, make_user("bea"))
            until(lambda: engine.in_flight == 0, "the end of the load")
            sent = engine.requests
        assert engine.requests == sent
    assert run.state == RunState.CANCELLED
    assert re.fullmatch(r"Cancelled by bea during stage \d \(ladder at 6\)", run.end_reason)
    assert measured(run) == [("baseline", 1, "done"), ("ladder", 6, "partial")]
    assert {stage["kind"] for stage in results_of(run)["stages"]} == {"baseline"}
    assert kinds(run)[-1] == "cancelled"


def test_a_cancel_between_two_stages_lets_no_other_become_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """The request comes while the first stage is being judged."""

    def cancel_first(plan: RunPlan, stages: Sequence[StageInput]) -> RunAnalysis:
        cancel_run(run, make_user("bea"))
        return analyse_stages(plan, stages)

    monkeypatch.setattr("workers.conductor.analyse_stages", cancel_first)
    with serving(Engine(steady)) as engine:
        run = launch(engine, stages=[1, 6], stage_s=60)
        conducted(run)
    assert run.state == RunState.CANCELLED
    assert measured(run)[0] == ("baseline", 1, "done")
    assert results_of(run)["stages"][0]["kind"] == "baseline"


def test_a_task_that_is_delivered_twice_puts_no_more_load_on_the_target() -> None:
    with serving(Engine(steady)) as engine:
        run = launch(engine, stages=[1, 4])
        with conducting(run), conducting(run):
            pass
    assert run.state == RunState.DONE
    assert engine.peak == 4
    assert measured(run) == [("baseline", 1, "done"), ("ladder", 4, "done"), ("closing", 1, "done")]
    assert kinds(run).count("started") == 1


def test_a_worker_that_shuts_down_leaves_its_run_to_be_resumed(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(Engine(steady)) as engine:
        run = launch(engine, **LONG)
        with conducting(run):
            until(lambda: engine.requests > 10, "the baseline")
            monkeypatch.setattr(shutdown, "_stopping", bytearray(b"\1"))
        assert engine.in_flight == 0
    assert run.state == RunState.INTERRUPTED
    assert run.end_reason.startswith("The worker was stopped during stage 1 (baseline at 1)")


def test_a_conductor_that_lost_its_claim_leaves_without_a_word() -> None:
    with serving(Engine(steady)) as engine:
        run = launch(engine, **LONG)
        with conducting(run):
            until(lambda: engine.requests > 10, "the baseline")
            Run.objects.end(run.pk, RunState.INTERRUPTED, "taken away")
            events = run.events.count()
    assert (run.state, run.end_reason) == (RunState.INTERRUPTED, "taken away")
    assert run.events.count() == events


def test_a_generator_that_is_killed_has_its_stage_repeated_once() -> None:
    with serving(Engine(steady)) as engine:
        run = launch(engine, **LONG)
        with conducting(run):
            for times in (1, 2):
                until(partial(_has_ticks, run, stages=times), "a tick")
                _kill_generators(os.getpid())
    assert run.state == RunState.FAILED
    assert "SIGKILL" in run.end_reason and "2 times" in run.end_reason
    assert list(run.stages.values_list("kind", "state")) == [("baseline", "partial")] * 2


def test_a_run_whose_worker_was_killed_is_resumed_from_its_last_whole_stage() -> None:
    with serving(Engine(steady)) as engine:
        run = launch(engine, stages=[1, 3])
        worker = subprocess.Popen(
            [sys.executable, "-c", _CONDUCT.format(run.pk)], env=environment(), cwd=settings.BASE_DIR
        )
        try:
            until(lambda: engine.peak == 3, "the second stage")
        finally:
            worker.send_signal(signal.SIGKILL)
            worker.wait()
        until(lambda: engine.in_flight == 0, "the end of the generator, which ends with its parent")
        Run.objects.filter(pk=run.pk).update(heartbeat_at=timezone.now() - timedelta(seconds=LOST_AFTER_S + 1))
        assert mark_lost_runs() == [run]
        run.refresh_from_db()
        assert run.state == RunState.INTERRUPTED
        conducted(resume_run(run, make_user()))
        run.refresh_from_db()
    assert run.state == RunState.DONE, run.end_reason
    assert measured(run) == [
        ("baseline", 1, "done"),
        ("ladder", 3, "partial"),
        ("ladder", 3, "done"),
        ("closing", 1, "done"),
    ]
    assert len(results_of(run)["stages"]) == run.stages.filter(state="done").count()
    assert engine.peak == 3


_CONDUCT = "import django; django.setup(); from workers.conductor import conduct; conduct({}, 'killed')"


def _has_ticks(run: Run, stages: int) -> bool:
    return StageTick.objects.filter(stage__run=run).values("stage").distinct().count() == stages


def _kill_generators(parent: int) -> None:
    for child in psutil.Process(parent).children():
        with contextlib.suppress(psutil.NoSuchProcess):
            if "workers.loadgen" in child.cmdline():
                child.kill()
