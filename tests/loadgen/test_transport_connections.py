"""How every transport makes, keeps, loses and ends connections, against real sockets."""

from __future__ import annotations

import asyncio
import socket
import ssl
from pathlib import Path
from time import monotonic_ns

import pytest
import trustme

from tests.loadgen.peers import CHUNKED, STREAM, WHOLE, Dial, ask, ask_once, read_request, replying, run, serving
from workers.loadgen.answer import Answer, Outcome
from workers.loadgen.tls import tls_context
from workers.loadgen.transport import Connection


def test_an_idle_connection_that_the_server_closed_is_made_anew_before_the_next_request(dial: Dial) -> None:
    async def test() -> None:
        async with serving(replying(WHOLE, close=True)) as url:
            connection = dial(url)
            assert (await ask(connection)).outcome is Outcome.OK
            while connection.connected:
                await asyncio.sleep(0.001)
            answer = await ask(connection)
            assert (answer.outcome, answer.resent) == (Outcome.OK, False)
            assert answer.connect_ms is not None

    run(test())


def test_a_kept_connection_that_dies_unanswered_is_replaced_once_and_counted(dial: Dial) -> None:
    connections = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        answers = {1: 1, 2: 1}.get(connections, 0)
        for _ in range(answers):
            await read_request(reader)
            writer.write(WHOLE)
        await read_request(reader)
        writer.transport.abort()

    async def test() -> None:
        async with serving(serve) as url:
            connection = dial(url)
            assert (await ask(connection)).outcome is Outcome.OK
            answer = await ask(connection)
            assert (answer.outcome, answer.resent) == (Outcome.OK, True)
            assert answer.connect_ms is not None
            answer = await ask(connection)
            assert (answer.outcome, answer.resent) == (Outcome.CONNECT_ERROR, True)
            answer = await ask(connection)
            assert (answer.outcome, answer.resent) == (Outcome.CONNECT_ERROR, False)
        assert connections == 4

    run(test())


def test_a_reset_in_the_middle_is_a_stream_cut_short(dial: Dial) -> None:
    part = b"2f\r\n" + STREAM[:47] + b"\r\n"
    go = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(CHUNKED + part)
        await go.wait()
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        writer.transport.abort()

    async def test() -> None:
        async with serving(serve) as url:
            answer = Answer()
            exchange = asyncio.create_task(dial(url).exchange("id", b"{}", answer))
            while not answer.arrivals_ns:
                await asyncio.sleep(0.001)
            go.set()
            await exchange
            assert answer.outcome is Outcome.STREAM_ERROR
            assert "reset" in (answer.error or "")

    run(test())


def test_an_answer_that_comes_before_the_body_was_read_counts(dial: Dial) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Too Large\r\nContent-Length: 9\r\n\r\ntoo large")
        await writer.drain()

    async def test() -> None:
        async with serving(serve) as url:
            connection = dial(url)
            answer = await ask(connection, b"x" * 100_000)
            assert (answer.outcome, answer.error) == (Outcome.HTTP_ERROR, "HTTP 413: too large")
            assert answer.t_sent_ns is not None
            connection.abort()

    run(test())


def test_sent_is_when_the_last_byte_of_a_large_body_went(dial: Dial) -> None:
    began_to_read_ns = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal began_to_read_ns
        await asyncio.sleep(0.2)
        began_to_read_ns = monotonic_ns()
        await read_request(reader)
        writer.write(WHOLE)

    async def test() -> None:
        async with serving(serve) as url:
            answer = await ask(dial(url), b"x" * 50_000_000)
            assert answer.outcome is Outcome.OK
            assert answer.t_sent_ns is not None
            assert answer.t_sent_ns > began_to_read_ns

    run(test())


def test_an_answer_that_was_not_asked_for_closes_the_connection(dial: Dial) -> None:
    answered = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(WHOLE)
        await answered.wait()
        writer.write(b"HTTP/1.1 408 Timeout\r\nContent-Length: 0\r\n\r\n")

    async def test() -> None:
        async with serving(serve) as url:
            connection = dial(url)
            for _ in range(3):
                answered.clear()
                assert (await ask(connection)).outcome is Outcome.OK
                answered.set()
                while connection.connected:
                    await asyncio.sleep(0.001)

    run(test())


@pytest.mark.parametrize("silent_after", [b"", CHUNKED, CHUNKED + b"2f\r\n" + STREAM[:47] + b"\r\n"])
def test_abort_ends_an_exchange_with_a_server_that_fell_silent(dial: Dial, silent_after: bytes) -> None:
    closed = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(silent_after)
        await reader.read()
        closed.set()
        writer.close()

    async def test() -> None:
        async with serving(serve) as url:
            connection = dial(url)
            answer = Answer()
            exchange = asyncio.create_task(connection.exchange("id", b"{}", answer))
            while (answer.t_heard_ns if silent_after else answer.t_sent_ns) is None:
                await asyncio.sleep(0.001)
            answer.fail(Outcome.TIMEOUT, "too long", monotonic_ns())
            connection.abort()
            await exchange
            assert (answer.outcome, connection.connected) == (Outcome.TIMEOUT, False)
            await closed.wait()

    run(test())


def test_a_cancelled_exchange_leaves_no_connection_behind(dial: Dial) -> None:
    closed = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        await reader.read()
        closed.set()
        writer.close()

    async def test() -> None:
        async with serving(serve) as url:
            connection = dial(url)
            answer = Answer()
            exchange = asyncio.create_task(connection.exchange("id", b"{}", answer))
            while answer.t_sent_ns is None:
                await asyncio.sleep(0.001)
            exchange.cancel()
            with pytest.raises(asyncio.CancelledError):
                await exchange
            connection.abort()
            await closed.wait()

    run(test())


def test_no_connection_is_a_clear_failure(dial: Dial) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]

        async def test() -> None:
            answer = await ask(dial(f"http://127.0.0.1:{port}/v1"))
            assert answer.outcome is Outcome.CONNECT_ERROR
            assert answer.error == f"no connection to 127.0.0.1 port {port}: Connection refused"
            assert answer.t_sent_ns is None
            answer = await ask(dial("http://no-such-host.invalid/v1"))
            assert answer.outcome is Outcome.CONNECT_ERROR
            assert "no-such-host.invalid cannot be resolved" in (answer.error or "")

        run(test())


def test_ipv6_literals_work_with_brackets_in_the_host_header(dial: Dial) -> None:
    heads: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append((await read_request(reader))[0])
        writer.write(WHOLE)

    async def test() -> None:
        async with serving(serve, "::1") as url:
            connection = dial(url)
            assert (await ask(connection)).outcome is Outcome.OK
            connection.abort()

    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        pytest.skip("this machine has no IPv6 loopback")
    run(test())
    assert "Host: [::1]:" in heads[0]


def test_tls_is_verified_unless_the_plan_says_otherwise(dial: Dial, tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(server)
    other = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("elsewhere.test").configure_cert(other)
    knowing = tls_context(ca_file=tmp_path / "ca.pem")

    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    async def words(connection: Connection) -> str:
        answer = await ask(connection)
        assert answer.outcome is Outcome.CONNECT_ERROR
        return answer.error or ""

    async def test() -> None:
        async with serving(replying(WHOLE, WHOLE), tls=server) as url:
            assert "certificate not trusted" in await words(dial(url))
            for tls in (tls_context(verify=False), knowing):
                connection = dial(url, tls=tls)
                for _ in range(2):
                    answer = await ask(connection)
                    assert (answer.outcome, answer.text) == (Outcome.OK, "a")
                    assert answer.t_sent_ns is not None
                connection.abort()
        async with serving(replying(WHOLE), tls=other) as url:
            assert "certificate not trusted: IP address mismatch" in await words(dial(url, tls=knowing))
        async with serving(greet) as url:
            assert "is the address https" in await words(dial(url.replace("http", "https")))

    run(test())


def test_a_proxy_of_the_environment_is_ignored(dial: Dial, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")

    async def test() -> None:
        assert (await ask_once(dial, replying(WHOLE))).outcome is Outcome.OK

    run(test())


def test_many_connections_at_once_share_nothing(dial: Dial) -> None:
    async def test() -> None:
        async with serving(replying(WHOLE, WHOLE)) as url:
            connections = [dial(url) for _ in range(30)]
            for _ in range(2):
                answers = await asyncio.gather(*(ask(connection) for connection in connections))
                assert {(one.outcome, one.text) for one in answers} == {(Outcome.OK, "a")}
            for connection in connections:
                connection.abort()

    run(test())
