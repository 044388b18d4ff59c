"""A real Celery worker takes a run from the queue and lets it go when it is shut down."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
from django.conf import settings

from campaigns.models import RunState
from tests.workers.conducting import DEADLINE_S, environment, launch, measured, until
from tests.workers.engine import Engine, serving, steady
from workers import tasks

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.process]


@contextmanager
def worker(queue: str) -> Iterator[subprocess.Popen[bytes]]:
    command = ["-m", "celery", "-A", "webapp", "worker", "-c", "2", "-Q", queue, "-n", f"{queue}@test"]
    process = subprocess.Popen([sys.executable, *command], env=environment(), cwd=settings.BASE_DIR)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(DEADLINE_S)
        finally:
            process.kill()


def test_a_worker_conducts_what_is_queued_and_stops_within_seconds() -> None:
    queue = f"test.{uuid.uuid4().hex}"
    with serving(Engine(steady)) as engine:
        run = launch(engine, queue=queue, stages=[1, 2], stage_s=300)
        with worker(queue) as process:
            until(lambda: engine.peak == 2, "the second stage")
            process.send_signal(signal.SIGTERM)
            process.wait(DEADLINE_S)
        assert engine.in_flight == 0
    run.refresh_from_db()
    assert run.state == RunState.INTERRUPTED, run.end_reason
    assert re.match(r"The worker was stopped during stage \d \(ladder at 2\)", run.end_reason)
    assert measured(run) == [("baseline", 1, "done"), ("ladder", 2, "partial")]


@pytest.mark.parametrize(("processes", "places"), [(4, 3), (2, 1), (1, 1)])
def test_one_process_of_a_pool_is_left_for_housekeeping(
    processes: int, places: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "_places", 0)
    tasks.count_places(SimpleNamespace(concurrency=processes))
    assert tasks._places == places


def test_a_worker_with_all_places_taken_leaves_a_run_in_the_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "_places", 0)
    with serving(Engine(steady)) as engine:
        run = launch(engine)
        tasks.run_campaign.apply(args=[run.pk])
    run.refresh_from_db()
    assert run.state == RunState.QUEUED
