"""The wire transport against real sockets: how answers are framed, cut, compressed and lost."""

from __future__ import annotations

import asyncio
import gzip
import socket
import ssl
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from itertools import cycle
from pathlib import Path
from time import monotonic_ns
from typing import Any

import pytest
import trustme
import uvloop

from tests.loadgen.corpus import CASES, Case
from workers.loadgen.answer import Answer, Outcome
from workers.loadgen.transport import ConnectError
from workers.loadgen.wire import WireConnection, WireTransport

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
STREAM = (
    b'data: {"choices":[{"delta":{"content":"a"}}]}\n\ndata: {"choices":[{"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
)
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
WHOLE = HEAD + b"Content-Length: %d\r\n\r\n" % len(STREAM) + STREAM


def run(test: Coroutine[Any, Any, None]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(30):
            await test

    uvloop.run(limited())


@asynccontextmanager
async def serving(serve: Serve, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """The URL of a server that runs `serve` on each connection."""
    server = await asyncio.start_server(serve, host, 0, ssl=tls)
    port = server.sockets[0].getsockname()[1]
    try:
        yield f"{'https' if tls else 'http'}://{f'[{host}]' if ':' in host else host}:{port}/v1/chat/completions"
    finally:
        server.close()


async def read_request(reader: asyncio.StreamReader) -> tuple[str, bytes]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    length = int(head.lower().partition("content-length: ")[2].partition("\r\n")[0])
    return head, await reader.readexactly(length)


def replying(*answers: bytes, close: bool = False) -> Serve:
    """Each request of a connection gets the next of the answers."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            for answer in answers:
                await read_request(reader)
                writer.write(answer)
                await writer.drain()
            if not close:
                await reader.read()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    return serve


def line_to(url: str, headers: dict[str, str] | None = None, verify_tls: bool = True) -> WireConnection:
    return WireTransport(url, headers or {}, verify_tls).connection()


async def ask(connection: WireConnection, body: bytes = b"{}") -> Answer:
    answer = Answer(keep_text=True)
    await connection.exchange("id", body, answer)
    assert answer.outcome is not None
    return answer


async def ask_once(serve: Serve, **options: Any) -> Answer:
    async with serving(serve) as url:
        connection = line_to(url, **options)
        answer = await ask(connection)
        connection.abort()
        return answer


def message_of(case: Case, chunk_sizes: list[int]) -> bytes:
    """The case's whole HTTP answer; chunks have the sizes given, in turn."""
    headers = {"Content-Type": case.content_type} | case.headers
    body = case.body
    if case.framing == "length":
        headers["Content-Length"] = str(len(body))
    elif case.framing == "chunked":
        headers["Transfer-Encoding"] = "chunked"
        chunks = []
        for size in cycle(chunk_sizes):
            if not body:
                break
            chunks.append(b"%x\r\n%s\r\n" % (len(body[:size]), body[:size]))
            body = body[size:]
        body = b"".join(chunks) + b"0\r\n\r\n"
    lines = [f"HTTP/1.1 {case.status} Whatever", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
    return "\r\n".join(lines).encode() + body


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_corpus_over_tcp_whatever_the_chunks_and_packets(case: Case) -> None:
    async def test() -> None:
        for chunks, packets in (([1], [1]), ([3, 1, 7], [2, 5, 1, 11]), ([60], [17]), ([100_000], [100_000])):

            async def serve(
                reader: asyncio.StreamReader,
                writer: asyncio.StreamWriter,
                message: bytes = message_of(case, chunks),
                sizes: list[int] = packets,
            ) -> None:
                await read_request(reader)
                for size in cycle(sizes):
                    if not message:
                        break
                    writer.write(message[:size])
                    await writer.drain()
                    await asyncio.sleep(0)
                    message = message[size:]
                writer.close()

            answer = await ask_once(serve)
            case.check(answer)
            assert answer.t_sent_ns is not None
            times = [answer.t_sent_ns, answer.t_headers_ns, answer.t_first_ns, answer.t_last_ns, answer.t_end_ns]
            given = [time for time in times if time is not None]
            assert given == sorted(given)

    run(test())


def test_a_request_is_written_as_the_plan_says() -> None:
    heads: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head, body = await read_request(reader)
        heads.append(head)
        assert body == b'{"a": 1}'
        writer.write(WHOLE)

    async def test() -> None:
        async with serving(serve) as url:
            connection = line_to(url + "?key=x", {"Authorization": "Bearer k", "user-agent": "mine"})
            assert (await ask(connection, b'{"a": 1}')).outcome is Outcome.OK

    run(test())
    head = heads[0].split("\r\n")
    assert head[0] == "POST /v1/chat/completions?key=x HTTP/1.1"
    assert {"Authorization: Bearer k", "user-agent: mine", "X-Request-Id: id", "Content-Type: application/json"} < set(
        head
    )
    assert not any(line.startswith("User-Agent") for line in head)


def test_one_connection_serves_many_requests_and_says_once_what_it_cost() -> None:
    async def test() -> None:
        async with serving(replying(WHOLE, WHOLE, WHOLE)) as url:
            connection = line_to(url)
            assert not connection.connected
            await connection.ready()
            assert connection.connected
            for number in range(3):
                answer = await ask(connection)
                assert (answer.outcome, answer.text) == (Outcome.OK, "a")
                assert (answer.connect_ms is not None) == (number == 0)

    run(test())


def bare_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("gzip", gzip.compress(STREAM)),
        ("gzip", gzip.compress(STREAM[:60]) + gzip.compress(STREAM[60:])),
        ("deflate", zlib.compress(STREAM)),
        ("deflate", bare_deflate(STREAM)),
        ("identity", STREAM),
    ],
    ids=["gzip", "gzip of two members", "zlib", "bare deflate", "identity"],
)
def test_compressed_answers_are_read(encoding: str, body: bytes) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(HEAD + f"Content-Encoding: {encoding}\r\nContent-Length: {len(body)}\r\n\r\n".encode())
        for place in range(len(body)):
            writer.write(body[place : place + 1])
            await writer.drain()
            await asyncio.sleep(0)

    async def test() -> None:
        answer = await ask_once(serve)
        assert (answer.outcome, answer.text, answer.error) == (Outcome.OK, "a", None)

    run(test())


def head_with(*lines: str) -> bytes:
    return HEAD + "".join(f"{line}\r\n" for line in lines).encode() + b"\r\n"


ZIPPED = gzip.compress(STREAM)
CHUNKED = head_with("Transfer-Encoding: chunked")


@pytest.mark.parametrize(
    ("message", "outcome", "words"),
    [
        (head_with("Content-Encoding: br", "Content-Length: 3") + b"abc", Outcome.STREAM_ERROR, "content-encoding"),
        (head_with("Content-Encoding: gzip", "Content-Length: 9") + b"\x1f\x8bgarbage", Outcome.STREAM_ERROR, "broken"),
        (head_with("Content-Encoding: gzip", "Content-Length: 30") + ZIPPED[:30], Outcome.STREAM_ERROR, "no end"),
        (head_with("Content-Length: 500") + STREAM[:50], Outcome.STREAM_ERROR, "cut short"),
        (CHUNKED + b"2d\r\n" + STREAM[:45] + b"\r\n5\r\nda", Outcome.STREAM_ERROR, "cut short"),
        (CHUNKED + b"zz\r\n", Outcome.STREAM_ERROR, "framing"),
        (head_with("Content-Length: 0"), Outcome.STREAM_ERROR, "empty"),
        (b"HTTP/1.1 503 No\r\nContent-Length: 99\r\n\r\nbusy", Outcome.REFUSED, "HTTP 503: busy"),
        (b"HTTP/1.1 500 No\r\nContent-Encoding: br\r\n\r\nxx", Outcome.HTTP_ERROR, "HTTP 500"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", Outcome.STREAM_ERROR, "empty"),
        (b"", Outcome.CONNECT_ERROR, "before it answered"),
        (b"HTTP/1.1 200 OK\r\nContent-", Outcome.CONNECT_ERROR, "before it answered"),
        (b"\x15\x03\x01 not http", Outcome.HTTP_ERROR, "not HTTP"),
        (b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n", Outcome.HTTP_ERROR, "protocol"),
        (b"HTTP/1.1 307 Moved\r\nLocation: /x?k=s\r\n\r\n", Outcome.HTTP_ERROR, "redirected to /x;"),
    ],
)  # fmt: skip
def test_what_goes_wrong_on_the_wire_is_one_clear_failure(message: bytes, outcome: Outcome, words: str) -> None:
    async def test() -> None:
        answer = await ask_once(replying(message, close=True))
        assert answer.outcome is outcome
        assert words in (answer.error or "")

    run(test())


@pytest.mark.parametrize(
    "message",
    [
        b"HTTP/1.1 100 Continue\r\n\r\n" + b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + WHOLE,
        b"HTTP/1.0 200 OK\r\n\r\n" + STREAM,
        head_with("Connection: close") + STREAM,
        CHUNKED + b"%x\r\n" % len(STREAM) + STREAM,  # [DONE] came, the last chunk never does
    ],
    ids=["1xx first", "HTTP/1.0", "until close", "no last chunk"],
)
def test_unusual_but_whole_answers_are_a_success(message: bytes) -> None:
    async def test() -> None:
        answer = await ask_once(replying(message, close=True))
        assert (answer.outcome, answer.text) == (Outcome.OK, "a")

    run(test())


def test_a_body_that_stays_open_after_done_does_not_hold_the_slot() -> None:
    async def test() -> None:
        async with serving(replying(CHUNKED + b"%x\r\n" % len(STREAM) + STREAM)) as url:
            connection = line_to(url)
            for _ in range(2):
                answer = await ask(connection)
                assert answer.outcome is Outcome.OK
                assert not connection.connected

    run(test())


def test_an_idle_connection_that_the_server_closed_is_made_anew_before_the_next_request() -> None:
    async def test() -> None:
        async with serving(replying(WHOLE, close=True)) as url:
            connection = line_to(url)
            assert (await ask(connection)).outcome is Outcome.OK
            while connection.connected:
                await asyncio.sleep(0.001)
            answer = await ask(connection)
            assert (answer.outcome, answer.resent) == (Outcome.OK, False)
            assert answer.connect_ms is not None

    run(test())


def test_a_kept_connection_that_dies_unanswered_is_replaced_once_and_counted() -> None:
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
            connection = line_to(url)
            assert (await ask(connection)).outcome is Outcome.OK
            answer = await ask(connection)
            assert (answer.outcome, answer.resent) == (Outcome.OK, True)
            answer = await ask(connection)
            assert (answer.outcome, answer.resent) == (Outcome.CONNECT_ERROR, True)
            answer = await ask(connection)
            assert (answer.outcome, answer.resent) == (Outcome.CONNECT_ERROR, False)
        assert connections == 4

    run(test())


def test_a_reset_in_the_middle_is_a_stream_cut_short() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(CHUNKED + b"2d\r\n" + STREAM[:45] + b"\r\n")
        await writer.drain()
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        writer.transport.abort()

    async def test() -> None:
        answer = await ask_once(serve)
        assert answer.outcome in (Outcome.STREAM_ERROR, Outcome.CONNECT_ERROR)

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


def test_sent_is_when_the_last_byte_of_a_large_body_went() -> None:
    began_to_read_ns = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal began_to_read_ns
        await asyncio.sleep(0.2)
        began_to_read_ns = monotonic_ns()
        await read_request(reader)
        writer.write(WHOLE)

    async def test() -> None:
        async with serving(serve) as url:
            answer = await ask(line_to(url), b"x" * 50_000_000)
            assert answer.outcome is Outcome.OK
            assert answer.t_sent_ns is not None
            assert answer.t_sent_ns > began_to_read_ns

    run(test())


def test_an_answer_that_was_not_asked_for_closes_the_connection() -> None:
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


def test_abort_ends_a_pending_exchange() -> None:
    async def test() -> None:
        async with serving(replying(CHUNKED)) as url:
            connection = line_to(url)
            await connection.ready()
            answer = Answer()
            exchange = asyncio.create_task(connection.exchange("id", b"{}", answer))
            while answer.t_headers_ns is None:
                await asyncio.sleep(0.001)
            answer.fail(Outcome.TIMEOUT, "too long", monotonic_ns())
            connection.abort()
            await exchange
            assert (answer.outcome, connection.connected) == (Outcome.TIMEOUT, False)

    run(test())


def test_no_connection_is_a_clear_failure() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]

        async def test() -> None:
            answer = await ask(line_to(f"http://127.0.0.1:{port}/v1"))
            assert answer.outcome is Outcome.CONNECT_ERROR
            assert f"127.0.0.1 port {port}" in (answer.error or "")
            assert "refused" in (answer.error or "").lower()
            assert answer.t_sent_ns is None
            with pytest.raises(ConnectError, match="resolved"):
                await line_to("http://no-such-host.invalid/v1").ready()

        run(test())


def test_ipv6_literals_work_with_brackets_in_the_host_header() -> None:
    heads: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append((await read_request(reader))[0])
        writer.write(WHOLE)

    async def test() -> None:
        async with serving(serve, "::1") as url:
            assert (await ask(line_to(url))).outcome is Outcome.OK

    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        pytest.skip("this machine has no IPv6 loopback")
    run(test())
    assert "Host: [::1]:" in heads[0]


def test_tls_is_verified_unless_the_plan_says_otherwise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    authority = trustme.CA()
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(server)

    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    async def test() -> None:
        async with serving(replying(WHOLE, WHOLE), tls=server) as url:
            with pytest.raises(ConnectError, match="certificate not trusted"):
                await line_to(url).ready()
            careless = line_to(url, verify_tls=False)
            assert [(await ask(careless)).outcome for _ in range(2)] == [Outcome.OK] * 2
            authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
            monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
            answer = await ask(line_to(url))
            assert (answer.outcome, answer.text) == (Outcome.OK, "a")
            assert answer.t_sent_ns is not None
        async with serving(greet) as url:
            with pytest.raises(ConnectError, match="is the address https"):
                await line_to(url.replace("http", "https")).ready()

    run(test())


def test_a_proxy_of_the_environment_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")

    async def test() -> None:
        assert (await ask_once(replying(WHOLE))).outcome is Outcome.OK

    run(test())
