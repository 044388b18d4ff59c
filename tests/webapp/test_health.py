"""`/healthz` tells whether a campaign could be run, and what is missing."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import Error as DatabaseError
from django.db import connection
from django.test import Client
from django.utils import timezone

from campaigns.models import WorkerHost
from webapp.up.embedded import free_port
from workers import heartbeat

pytestmark = pytest.mark.django_db


def test_all_is_well_once_a_worker_has_spoken(client: Client) -> None:
    heartbeat.write("w@host", ["brimline"], timezone.now())
    answer = client.get("/healthz")
    assert answer.status_code == 200
    assert {part: told["ok"] for part, told in answer.json().items()} == {
        "database": True,
        "broker": True,
        "worker": True,
    }
    assert "no-store" in answer["Cache-Control"]


def test_a_worker_that_never_spoke_or_fell_silent_is_missed(client: Client) -> None:
    assert client.get("/healthz").status_code == 503
    heartbeat.write("w@host", ["brimline"], timezone.now())
    WorkerHost.objects.update(heartbeat_at=timezone.now() - timedelta(minutes=1))
    answer = client.get("/healthz")
    assert answer.status_code == 503 and "no worker has spoken up since" in answer.json()["worker"]["detail"]


def test_a_broker_that_is_away_is_named_without_its_address(client: Client, settings: pytest.FixtureRequest) -> None:
    settings.REDIS_URL = f"redis://:hidden@127.0.0.1:{free_port()}/0"  # type: ignore[attr-defined]
    answer = client.get("/healthz")
    assert answer.status_code == 503 and not answer.json()["broker"]["ok"]
    assert b"hidden" not in answer.content and b"127.0.0.1" not in answer.content


def test_a_database_that_is_away_is_named(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise DatabaseError("gone")

    monkeypatch.setattr(connection, "cursor", refuse)
    answer = client.get("/healthz")
    assert answer.status_code == 503
    assert answer.json()["worker"]["detail"] == "unknown without the database"


def test_only_safe_methods(client: Client) -> None:
    assert client.post("/healthz").status_code == 405


def test_a_sign_of_life_replaces_the_last_one() -> None:
    for _ in range(2):
        heartbeat.write("w@host", ["brimline"], timezone.now())
    assert WorkerHost.objects.count() == 1
