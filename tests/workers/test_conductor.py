"""Whole runs: a real database, the real load generator, and a server whose true load line is known."""

from __future__ import annotations

import json

import pytest

from campaigns.models import Run, RunState, StageState
from campaigns.services.cancel import cancel_run
from campaigns.services.runs import describe_run, results_of
from tests.campaigns.services.builders import make_user
from tests.workers.conducting import conducted, conducting, kinds, launch, measured, until
from tests.workers.engine import KEY, Engine, linear, serving, steady, step

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_run_finds_the_true_load_line_of_a_server_that_slows_down_steadily() -> None:
    with serving(Engine(linear(6.5), needs_key=True)) as engine:
        run = conducted(launch(engine, api_key=KEY, stages=[1, 4, 9], refine={"enabled": True, "budget_s": 25}))
    assert (run.state, run.simulated) == (RunState.DONE, False)
    results = results_of(run)
    assert results["verdict"] == "ok", results
    answer = results["max_concurrency"]
    assert answer["relation"] == "=" and answer["value"] in (5, 6, 7), answer
    assert answer["limited_by"]["metric"] == "ttft_ms"
    assert run.end_reason == run.result.text == answer["text"]
    stages = measured(run)
    assert stages[:3] == [("baseline", 1, "done"), ("ladder", 4, "done"), ("ladder", 9, "done")]
    assert stages[-1] == ("closing", 1, "done")
    assert {kind for kind, _, _ in stages[3:-1]} == {"refine"}
    assert len(results["stages"]) == run.stages.count()
    assert run.stages.filter(result__within=None, kind="ladder").count() == 0
    assert engine.peak == 9
    _check_what_is_kept(run, KEY)


@pytest.mark.parametrize("server", ["", "brimline-simulator"])
@pytest.mark.parametrize("stopped", [False, True], ids=["done", "cancelled"])
def test_results_say_of_the_run_what_the_run_says(server: str, stopped: bool) -> None:
    with serving(Engine(steady, server=server)) as engine:
        run = launch(engine, stages=[1, 2], stage_s=60 if stopped else 1)
        with conducting(run):
            if stopped:
                until(lambda: engine.peak == 2, "the second stage")
                cancel_run(run, make_user("bea"))
    assert run.state == (RunState.CANCELLED if stopped else RunState.DONE)
    said, described = results_of(run)["run"], describe_run(run)
    assert said["simulated"] is bool(server)
    assert said == {name: described[name] for name in said if name in described} | {
        "model": run.frozen_plan.target.model,
        "brimline": run.frozen_plan.version,
    }


def _check_what_is_kept(run: Run, secret: str) -> None:
    seen = kinds(run)
    assert seen[:3] == ["queued", "started", "preflight"] and seen[-1] == "done"
    for stage in run.stages.all():
        assert stage.ticks.count() >= 1
        assert stage.request_log.rows > 5
        # A million requests stay tens of megabytes.
        assert len(stage.request_log.arrow) < 20_000 + 60 * stage.request_log.rows
    kept = [run.plan, run.preflight, run.result.document]
    kept += [[stage.summary, stage.result, [tick.progress for tick in stage.ticks.all()]] for stage in run.stages.all()]
    kept += [[event.message, event.data] for event in run.events.all()]
    assert secret not in json.dumps(kept)
    assert all(secret.encode() not in bytes(stage.request_log.arrow) for stage in run.stages.all())


def test_a_step_is_found_between_its_neighbours() -> None:
    with serving(Engine(step(3))) as engine:
        run = conducted(launch(engine, stages=[1, 2, 5], refine={"enabled": True, "budget_s": 25}))
    answer = results_of(run)["max_concurrency"]
    assert (answer["relation"], answer["passed"], answer["failed"]) == ("=", 3, 4)


def test_refused_requests_are_beyond_the_limit_and_end_the_ladder() -> None:
    with serving(Engine(steady, cap=3)) as engine:
        run = conducted(launch(engine, stages=[1, 3, 12, 24], abort={"error_pct": 10, "after_s": 0}))
    assert run.state == RunState.DONE
    assert [users for _, users, _ in measured(run)] == [1, 3, 12, 1]
    assert "ladder_ends" in kinds(run)
    answer = results_of(run)["max_concurrency"]
    assert (answer["passed"], answer["failed"]) == (3, 12), answer
    assert answer["limited_by"]["metric"] == "failure_pct"


def test_a_server_that_refuses_nearly_everything_ends_the_run_at_the_baseline() -> None:
    with serving(Engine(steady)) as engine:
        run = launch(engine)
        engine.refuse_after = 3
        conducted(run)
    assert run.state == RunState.ABORTED
    assert "refused (429)" in run.end_reason and "queue is full" in run.end_reason
    assert measured(run) == [("baseline", 1, "partial")]
    assert not hasattr(run, "result")


def test_early_ends_unknown_fields_and_no_usage_are_said_and_do_not_stop_a_run() -> None:
    with serving(Engine(steady, tokens_max=5, usage=False, refuses_fields=("ignore_eos",))) as engine:
        run = conducted(launch(engine, stages=[1, 2]))
    assert run.state == RunState.DONE
    assert run.events.get(kind="fields_dropped").data == {"fields": ["ignore_eos"]}
    results = results_of(run)
    answer = results["max_concurrency"]
    assert (answer["relation"], answer["failed"]) == (">=", None)
    assert {stage["token_source"] for stage in results["stages"]} == {"events"}


@pytest.mark.parametrize(
    ("engine", "words"),
    [
        (Engine(steady, needs_key=True), "authorised"),
        (Engine(steady, streams=False), "streams"),
    ],
)
def test_a_target_that_cannot_be_measured_fails_at_the_preflight(engine: Engine, words: str) -> None:
    with serving(engine):
        run = conducted(launch(engine))
    assert run.state == RunState.FAILED
    assert run.end_reason.startswith(f"Preflight failed: {words}: ")
    assert not run.stages.exists()
    assert run.preflight is not None and run.preflight["ok"] is False


def test_a_target_that_is_not_there_fails_at_the_preflight() -> None:
    run = conducted(launch(Engine(port=9)))
    assert run.state == RunState.FAILED
    assert "reachable" in run.end_reason


@pytest.mark.parametrize("how", ["dies", "locks out"])
def test_a_server_that_is_lost_fails_the_run_and_keeps_what_was_measured(
    how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.conductor.RECOVERY_S", 1.5)
    with serving(Engine(steady)) as engine:
        run = launch(engine, stages=[1, 2, 4, 8])
        engine.at_peak = 4, engine.die_soon if how == "dies" else engine.lock_out
        conducted(run)
    assert run.state == RunState.FAILED
    assert ("reachable" if how == "dies" else "authorised") in run.end_reason
    assert "(ladder at 4)" in run.end_reason
    assert measured(run) == [("baseline", 1, "done"), ("ladder", 2, "done"), ("ladder", 4, "done")]
    assert run.stages.filter(state=StageState.DONE, result=None).count() == 0
    answer = results_of(run)["max_concurrency"]
    assert (answer["passed"], answer["failed"]) == (2, 4)
