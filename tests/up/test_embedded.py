"""The servers start in whatever directory a person chose, and take over what a killed one left there."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import psycopg
import pytest
import redis

from tests.up.product import LIMIT_S
from webapp.up import embedded, postgres
from webapp.up.errors import UpError

pytestmark = [pytest.mark.process, pytest.mark.xdist_group("up")]

NAMES = [
    "plain",
    "two words",
    'it\'s "quoted" \\',
    "100%, %s %d",
    "größe-数据-\N{GRINNING FACE}",
    "deep/" + "/".join(["long-" * 30] * 3),
    "a,b;c$HOME#d",
    os.fsdecode(b"not-utf8-\xff"),
]


@pytest.fixture(params=NAMES, ids=range(len(NAMES)))
def data(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    made = tmp_path / request.param
    made.mkdir(parents=True)
    return made


@contextmanager
def left_running(data: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A server whose `up` was killed."""
    with postgres.prepared(data) as server:
        process = subprocess.Popen(
            server.command, user=server.user, group=server.user, extra_groups=() if server.user else None
        )
        try:
            assert postgres.await_ready(server, lambda: process.poll() is not None)
            yield process
        finally:
            process.kill()
            process.wait()


def test_a_database_starts_in_any_directory_and_keeps_its_data(data: Path) -> None:
    with embedded.postgres(data) as url, psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 7 AS value")
        (sockets,) = parse_qs(urlsplit(url).query)["host"]
        connection.commit()
    with embedded.postgres(data) as url, psycopg.connect(url) as connection:
        assert connection.execute("SELECT value FROM kept").fetchone() == (7,)
    # Nothing is left of a directory that was made for the socket alone.
    assert sockets == str(data / "postgres") or not Path(sockets).exists()


def test_a_broker_starts_in_any_directory_and_keeps_its_queue_there(data: Path) -> None:
    command, url = embedded.valkey_command(data)
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + LIMIT_S
        with redis.Redis.from_url(url) as client:
            while True:
                try:
                    client.ping()
                    break
                except redis.ConnectionError:
                    assert process.poll() is None and time.monotonic() < deadline
                    time.sleep(0.05)
            client.set("kept", "7")
            client.save()
        assert (data / "valkey" / "dump.rdb").exists()
    finally:
        process.terminate()
        process.wait()


def test_a_server_that_was_left_running_is_ended_and_its_data_taken_over(tmp_path: Path) -> None:
    with left_running(tmp_path) as old, embedded.postgres(tmp_path) as url:
        assert old.wait(LIMIT_S) is not None
        psycopg.connect(url).close()


def test_the_number_of_a_dead_server_may_be_another_programs_by_now(tmp_path: Path) -> None:
    with embedded.postgres(tmp_path):
        lines = (tmp_path / "postgres" / "postmaster.pid").read_text().splitlines()
    bystander = subprocess.Popen(["sleep", "1000"])
    try:
        lines[0] = str(bystander.pid)
        (tmp_path / "postgres" / "postmaster.pid").write_text("\n".join(lines))
        with embedded.postgres(tmp_path) as url:
            psycopg.connect(url).close()
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def test_a_directory_that_is_too_deep_even_for_the_system_says_so(tmp_path: Path) -> None:
    data = tmp_path.joinpath(*["x" * 200] * 6)
    data.mkdir(parents=True)
    with pytest.raises(UpError, match="PostgreSQL cannot make its database"), embedded.postgres(data):
        pass
