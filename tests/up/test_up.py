"""`manage.py up` for real: it starts, ends without a trace, comes back with its data, and says what is wrong."""

from __future__ import annotations

import signal
import socket
import stat
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.up.product import LIMIT_S, Product

pytestmark = [pytest.mark.process, pytest.mark.xdist_group("up")]


LIST_USERS = "from django.contrib.auth.models import User; print(*User.objects.values_list('username', flat=True))"


def until_gone(processes: list[psutil.Process]) -> list[psutil.Process]:
    _, alive = psutil.wait_procs(processes, timeout=LIMIT_S)
    return alive


@pytest.fixture
def product(tmp_path: Path) -> Iterator[Product]:
    # Deeper than the 107 bytes that the path of a socket may have, and nothing that fits into a line without quotes.
    data = tmp_path / ("deep-" * 8) / ("deeper-" * 8) / 'it\'s a "größe" of 100%s' / "data"
    made = Product(data, tmp_path / "output")
    yield made
    for process in made.processes():
        process.kill()


def test_a_product_lives_and_comes_back_with_its_data(product: Product) -> None:
    product.start().wait_for("Ready")
    assert product.healthy()
    environment = product.data / "environment"
    assert stat.S_IMODE(environment.stat().st_mode) == 0o600
    keys = environment.read_text()

    made = product.manage("shell", "-c", "from django.contrib.auth.models import User; User.objects.create_user('ann')")
    assert made.returncode == 0, made.stderr

    second = Product(product.data, product.output.with_name("second"))
    status, text = second.start().outcome()
    assert status == 1 and "is up already" in text and str(product.process and product.process.pid) in text

    # A part that dies is missed, said and started again: here the one that all others need.
    (database,) = [one for one in product.process_children() if "postgres" in one.name()]
    database.kill()
    product.wait_for("the database ended unexpectedly")
    product.until_healthy()
    assert "ann" in product.manage("shell", "-c", LIST_USERS).stdout

    all_of_it = product.processes()
    assert len(all_of_it) > 5
    assert product.end(signal.SIGINT) == 0
    assert until_gone(all_of_it) == [] and product.processes() == []

    product.output.write_text("")
    product.start().wait_for("Ready")
    assert [line for line in keys.splitlines() if "KEY" in line] == [
        line for line in environment.read_text().splitlines() if "KEY" in line
    ]
    token = product.manage("token", "ann", "--scope", "read")
    assert token.returncode == 0 and "brim_" in token.stdout, token.stderr

    # Killed outright: the children notice, and the next start takes over what is left.
    assert product.process is not None
    children = product.process_children()
    assert children
    product.process.kill()
    product.process.wait()
    assert until_gone(children) == []
    deadline = time.monotonic() + LIMIT_S
    while product.healthy() and time.monotonic() < deadline:
        time.sleep(0.1)
    product.output.write_text("")
    product.start().wait_for("Ready")
    assert product.healthy()
    all_of_it = product.processes()
    assert product.end(signal.SIGTERM) == 0
    assert until_gone(all_of_it) == [] and product.processes() == []


def test_a_busy_port_is_named_before_anything_starts(product: Product) -> None:
    with socket.create_server(("127.0.0.1", product.port)):
        status, text = product.start().outcome()
    assert status == 1
    assert f"127.0.0.1:{product.port}" in text and "--bind" in text and "PostgreSQL" not in text


def test_a_data_directory_that_is_a_file_is_refused(product: Product) -> None:
    product.data.parent.mkdir(parents=True)
    product.data.write_text("not a directory")
    status, text = product.start().outcome()
    assert status == 1 and "not a directory" in text and "--data" in text


def test_a_database_of_another_version_is_refused(product: Product) -> None:
    (product.data / "postgres").mkdir(parents=True)
    (product.data / "postgres" / "PG_VERSION").write_text("15\n")
    (product.data / "environment").write_text("BRIMLINE_FIELD_KEYS=x\n")
    status, text = product.start().outcome()
    assert status == 1 and "PostgreSQL 15" in text and "pg_dump" in text


def test_a_broken_database_is_reported_with_its_log(product: Product) -> None:
    (product.data / "postgres").mkdir(parents=True)
    (product.data / "postgres" / "PG_VERSION").write_text("18\n")
    (product.data / "environment").write_text("BRIMLINE_FIELD_KEYS=x\n")
    status, text = product.start().outcome()
    assert status == 1 and "PostgreSQL does not start" in text and str(product.data / "logs" / "database.log") in text
    assert "Traceback" not in text


def test_a_database_without_its_keys_is_not_given_new_ones(product: Product) -> None:
    (product.data / "postgres").mkdir(parents=True)
    (product.data / "postgres" / "PG_VERSION").write_text("18\n")
    status, text = product.start().outcome()
    assert status == 1 and "BRIMLINE_FIELD_KEYS" in text


def test_wrong_options_are_explained(product: Product) -> None:
    status, text = product.start("--bind", "8000").outcome()
    assert status == 2 and "HOST:PORT" in text
