"""The wire transport alone: what it does beyond `test_transports`."""

from __future__ import annotations

import asyncio
import ssl
from time import monotonic_ns

import pytest
import trustme

from tests.loadgen.peers import WHOLE, ask, read_request, replying, run, serving
from workers.loadgen.answer import Outcome
from workers.loadgen.tls import tls_context
from workers.loadgen.transport import ConnectError
from workers.loadgen.wire import WireConnection, WireTransport


def line_to(url: str) -> WireConnection:
    return WireTransport(url, {}, tls_context()).connection()


def test_it_connects_before_the_first_request() -> None:
    async def test() -> None:
        async with serving(replying(WHOLE)) as url:
            connection = line_to(url)
            await connection.ready()
            assert connection.connected
            answer = await ask(connection)
            assert answer.outcome is Outcome.OK
            assert answer.connect_ms is not None
            with pytest.raises(ConnectError, match="resolved"):
                await line_to("http://no-such-host.invalid/v1").ready()

    run(test())


def test_an_early_refusal_of_a_large_body_is_read_and_the_connection_is_not_reused() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Too Large\r\nContent-Length: 9\r\n\r\ntoo large")
        await writer.drain()

    async def test() -> None:
        async with serving(serve) as url:
            connection = line_to(url)
            answer = await ask(connection, b"x" * 50_000_000)
            assert (answer.outcome, answer.error) == (Outcome.HTTP_ERROR, "HTTP 413: too large")
            assert answer.t_sent_ns is not None
            assert not connection.connected

    run(test())


def test_a_second_answer_in_the_same_packet_closes_the_connection() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(WHOLE + b"HTTP/1.1 408 Timeout\r\nContent-Length: 0\r\n\r\n")

    async def test() -> None:
        async with serving(serve) as url:
            connection = line_to(url)
            for _ in range(3):
                assert (await ask(connection)).outcome is Outcome.OK
                while connection.connected:
                    await asyncio.sleep(0.001)

    run(test())


def test_over_tls_too_sent_is_when_the_last_byte_of_a_large_body_went() -> None:
    began_to_read_ns = 0
    authority = trustme.CA()
    server_tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(server_tls)
    client_tls = tls_context()
    authority.configure_trust(client_tls)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal began_to_read_ns
        await asyncio.sleep(0.2)
        began_to_read_ns = monotonic_ns()
        await read_request(reader)
        writer.write(WHOLE)

    async def test() -> None:
        async with serving(serve, tls=server_tls) as url:
            answer = await ask(WireTransport(url, {}, client_tls).connection(), b"x" * 20_000_000)
            assert answer.outcome is Outcome.OK
            assert answer.t_sent_ns is not None and answer.t_first_ns is not None
            assert began_to_read_ns < answer.t_sent_ns <= answer.t_first_ns

    run(test())
