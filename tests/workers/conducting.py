"""Small campaigns against the test's own engine, and what a test wants to know of their runs."""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from django.conf import settings
from django.db import connection
from django.utils import timezone

from campaigns.models import Run
from campaigns.services.enqueue import default_queue
from campaigns.services.inputs import LaunchInput
from campaigns.services.launch import launch_run
from campaigns.services.plans import create_campaign
from tests.campaigns.services.builders import campaign_input, make_mix, make_target, make_user
from tests.workers.engine import Engine
from workers import heartbeat
from workers.conductor import conduct

DEADLINE_S = 60.0
SHORT = {
    "stages": [1, 3],
    "stage_s": 2,
    "baseline_s": 2,
    "warmup_s": 0.3,
    "drain_s": 5,
    "timeout_s": 10,
    "refine": {"enabled": False},
    "abort": {"error_pct": 50, "after_s": 0},
}


def launch(engine: Engine, api_key: str = "", queue: str = "", **changes: Any) -> Run:
    """A queued run of short stages on `engine`; one class of 8 tokens in and 8 out."""
    target = make_target(base_url=engine.base_url, api_key=api_key, queue=queue)
    heartbeat.write("test", [queue or default_queue()], timezone.now())
    mix = make_mix(classes=[{"name": "a", "weight": 1, "input_tokens": 8, "output_tokens": 8}])
    campaign = create_campaign(make_user(), campaign_input(target, mix, **{**SHORT, **changes}))
    return launch_run(campaign, make_user(), LaunchInput())


def conducted(run: Run) -> Run:
    """The run after it was conducted here, to its end."""
    conduct(run.pk, "test")
    run.refresh_from_db()
    return run


@contextmanager
def conducting(run: Run) -> Iterator[threading.Thread]:
    """The run is conducted in a thread meanwhile, and has ended when the block is left."""

    def work() -> None:
        try:
            conduct(run.pk, "test")
        finally:
            connection.close()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield thread
    finally:
        thread.join(DEADLINE_S)
        assert not thread.is_alive()
        run.refresh_from_db()


def until(true: Callable[[], bool], what: str) -> None:
    """Wait for it; fails after `DEADLINE_S`."""
    deadline = time.monotonic() + DEADLINE_S
    while not true():
        assert time.monotonic() < deadline, f"waited {DEADLINE_S:.0f} s for {what}"
        time.sleep(0.02)


def measured(run: Run) -> list[tuple[str, int, str]]:
    """(kind, concurrency, state) of the run's stages, in order. One that was measured again, since a busy machine made
    the generator late, stands once."""
    stages = run.stages.order_by("index").values_list("kind", "concurrency", "state")
    return [stage for stage, _ in itertools.groupby(stages)]


def kinds(run: Run) -> list[str]:
    """The kinds of the run's events, in order."""
    return list(run.events.order_by("pk").values_list("kind", flat=True))


def environment() -> dict[str, str]:
    """For a process that works on the test's database."""
    database = connection.settings_dict
    parts = {"dbname": "NAME", "user": "USER", "password": "PASSWORD", "host": "HOST", "port": "PORT"}
    url = " ".join(f"{name}='{database[key]}'" for name, key in parts.items() if database[key])
    return {
        **os.environ,
        "DATABASE_URL": url,
        "DJANGO_SETTINGS_MODULE": "webapp.settings",
        "BRIMLINE_FIELD_KEYS": ",".join(settings.FIELD_KEYS),
        "REDIS_URL": settings.REDIS_URL,
    }
