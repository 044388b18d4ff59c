"""The demo starts by itself, tells its login once, and goes on with what an earlier start left."""

from __future__ import annotations

import io
import re
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.contrib.auth import authenticate
from django.core.management import call_command
from django.db import connection

from campaigns.management.commands import demo
from campaigns.models import Run, RunState, Target
from tests.workers.conducting import until
from tests.workers.engine import Engine, serving, steady
from workers.conductor import conduct

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(demo, "STAGES", [1])
    monkeypatch.setattr(demo, "WARMUP_S", 0.2)
    monkeypatch.setattr(demo, "STAGE_S", 1.0)
    monkeypatch.setattr(demo, "BASELINE_S", 1.0)
    monkeypatch.setattr(demo, "LOOK_EVERY_S", 0.1)
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


@contextmanager
def a_worker() -> Iterator[None]:
    """Conducts the next queued run, as a worker would."""

    def work() -> None:
        try:
            until(lambda: Run.objects.filter(state=RunState.QUEUED).exists(), "a queued run")
            conduct(Run.objects.get(state=RunState.QUEUED).pk, "test")
        finally:
            connection.close()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        thread.join()


def start(engine: Engine) -> str:
    out = io.StringIO()
    address = {"engine_url": engine.base_url, "base_url": "http://127.0.0.1:8000/", "model": "m"}
    call_command("demo", stdout=out, **address)
    return out.getvalue()


def test_the_demo_runs_to_its_load_line_and_is_not_run_again(settings: Any) -> None:
    with serving(Engine(steady)) as engine:
        with a_worker():
            first = start(engine)
        run = Run.objects.get()
        again = start(engine)
        settings.DEMO_PASSWORD = "chosen by hand"
        chosen = start(engine)
    password = re.search(r"Log in as demo with the password (\S+)", first)
    assert password is not None
    assert f"Load line: {run.result.text}\nhttp://127.0.0.1:8000/runs/{run.pk}/\n" in first
    assert "stage 1 of about 2: baseline at 1 user" in first
    assert password[1] not in again and "changepassword demo" in again
    assert run.result.text in again
    assert "chosen by hand" not in chosen
    assert authenticate(username="demo", password="chosen by hand") is not None
    assert Run.objects.count() == 1


def test_an_interrupted_demo_goes_on_and_a_new_port_starts_anew() -> None:
    with serving(Engine(steady)) as engine:
        with a_worker():
            start(engine)
        run = Run.objects.get()
        Run.objects.filter(pk=run.pk).update(state=RunState.INTERRUPTED)
        with a_worker():
            assert f"Resumed run {run.pk}" in start(engine)
    Run.objects.filter(pk=run.pk).update(state=RunState.INTERRUPTED)
    with serving(Engine(steady)) as other:
        with a_worker():
            text = start(other)
        assert Target.objects.get().base_url == other.base_url
    assert "has changed" in text
    assert Run.objects.count() == 2
