"""Which transport carries a plan, and whole stages through each."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
import trustme

from tests.loadgen.program import plan_for, run
from tests.loadgen.proxy_server import Proxy
from tests.loadgen.server import Behaviour, Server
from workers.loadgen.choose_transport import choose_transport
from workers.loadgen.plan import PlanError, parse_plan

HTTP = "http://127.0.0.1:9/v1"
HTTPS = "https://127.0.0.1:9/v1"


def chosen(base_url: str, directory: Path, environment: dict[str, str] | None = None, **changes: Any) -> str:
    plan = parse_plan(plan_for(base_url, **changes))
    return choose_transport(plan, {}, directory, environment or {})[0].name


@pytest.mark.parametrize(
    ("base_url", "changes", "name"),
    [
        (HTTP, {}, "wire"),
        (HTTP, {"transport": "wire"}, "wire"),
        (HTTP, {"transport": "httpx"}, "httpx"),
        (HTTP, {"proxy": "http://127.0.0.1:1"}, "httpx"),
        (HTTPS.replace("https", "HTTPS"), {"http2": True}, "httpx"),
        (HTTPS, {}, "wire"),
        (HTTP, {"proxy": "environment"}, "httpx"),
        (HTTPS, {"proxy": "environment"}, "wire"),
        (HTTPS, {"proxy": "environment", "transport": "httpx"}, "httpx"),
    ],
)
def test_wire_carries_all_but_what_needs_httpx(
    base_url: str, changes: dict[str, Any], name: str, tmp_path: Path
) -> None:
    assert chosen(base_url, tmp_path, {"HTTP_PROXY": "http://127.0.0.1:1"}, **changes) == name


def test_what_cannot_be_carried_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "empty.pem").write_text("nothing here")
    cases: list[tuple[str, dict[str, Any], str]] = [
        (HTTP, {"http2": True}, "http2: needs an https base_url"),
        (HTTPS, {"ca_file": "absent.pem"}, "ca_file: the file absent.pem cannot be read: No such file"),
        (HTTPS, {"ca_file": "empty.pem"}, "ca_file: the file empty.pem holds no certificate"),
        (HTTP, {"proxy": "http://127.0.0.1:99999999"}, "proxy: must be a URL"),
        ("http://999.0.0.1/v1", {"transport": "httpx"}, "base_url: is no URL for httpx"),
    ]
    for base_url, changes, words in cases:
        with pytest.raises(PlanError, match=words):
            chosen(base_url, tmp_path, **changes)


@contextmanager
def in_a_thread(server: AbstractAsyncContextManager[str]) -> Iterator[str]:
    """What an asynchronous server yields, while it serves from a loop of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield asyncio.run_coroutine_threadsafe(server.__aenter__(), loop).result(10)
    finally:
        asyncio.run_coroutine_threadsafe(server.__aexit__(None, None, None), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


def test_a_stage_through_a_proxy_measures_and_shows_no_password(tmp_path: Path) -> None:
    proxy = Proxy("brim:s3cret word")
    with Server(Behaviour(ttft_ms=20, itl_ms=2)).running() as server, in_a_thread(proxy.serving()) as address:
        login = address.replace("://", "://brim:s3cret%20word@")
        ran = run(plan_for(server.base_url, proxy="environment"), tmp_path, http_proxy=login, no_proxy="")
        assert ran.code == 0, ran.errors
        summary = ran.summary
        assert summary["transport"] == "httpx"
        assert summary["requests"]["ok"] == summary["requests"]["measured"] > 5
        assert 20 <= summary["ttft_ms"]["p50"] < 200
        assert server.connections == len(proxy.asked) == 2
        wrong = tmp_path / "wrong"
        wrong.mkdir()
        ran = run(plan_for(server.base_url, proxy=login.replace("s3cret", "n0secret")), wrong)
    assert ran.code == 0
    ended = [row for row in ran.rows if row["outcome"] != "cancelled"]
    assert ended
    assert {row["outcome"] for row in ended} == {"connect_error"}
    assert all("407 Proxy Authentication Required" in row["error"] for row in ended)
    for directory in (tmp_path, wrong):
        written = ran.errors.encode() + b"".join(
            path.read_bytes() for path in directory.glob("*") if path.is_file() and path.name != "plan.json"
        )
        assert b"secret" not in written
        assert b"s3cret" not in written


@pytest.mark.parametrize("transport", ["wire", "httpx"])
def test_a_stage_trusts_the_plans_authority(transport: str, tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(tls)
    with Server(tls=tls).running() as server:
        ran = run(plan_for(server.base_url, transport=transport, ca_file="ca.pem"), tmp_path)
    assert ran.code == 0, ran.errors
    assert ran.summary["transport"] == transport
    assert ran.summary["requests"]["ok"] == ran.summary["requests"]["measured"] > 5


@pytest.mark.parametrize(
    ("behaviour", "words"),
    [
        (Behaviour(fail="hang"), "no complete answer within 0.3 s"),
        (Behaviour(ttft_ms=1, itl_ms=100_000), "stalled: silent for 0.2 s"),
    ],
    ids=["no head", "half an answer"],
)
def test_a_server_that_falls_silent_is_left_in_time(behaviour: Behaviour, words: str, tmp_path: Path) -> None:
    timeout_s = 0.3 if behaviour.fail else 30
    with Server(behaviour).running() as server:
        plan = plan_for(server.base_url, transport="httpx", timeout_s=timeout_s, stall_s=0.2)
        ran = run(plan, tmp_path)
    assert ran.code == 0, ran.errors
    ended = [row for row in ran.rows if row["outcome"] != "cancelled"]
    assert ended
    assert {(row["outcome"], row["error"]) for row in ended} == {("timeout", words)}


def test_a_stage_of_many_slots_ends_in_time_and_leaves_no_warning(tmp_path: Path) -> None:
    with Server(Behaviour(ttft_ms=5, itl_ms=1)).running() as server:
        plan = plan_for(server.base_url, 100, transport="httpx", warmup_s=0.5, measure_s=1, drain_s=5)
        ran = run(plan, tmp_path)
        assert server.connections == 100
    assert (ran.code, ran.errors) == (0, "")
    assert ran.summary["requests"]["ok"] == ran.summary["requests"]["measured"] > 50
