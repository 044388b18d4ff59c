"""How every transport reads answers from real sockets: framed, compressed, unusual, wrong."""

from __future__ import annotations

import asyncio
import gzip
import re
import zlib

import pytest

from tests.loadgen.corpus import CASES, Case
from tests.loadgen.peers import (
    CHUNKED,
    STREAM,
    WHOLE,
    Dial,
    ask,
    ask_once,
    head_with,
    message_of,
    parts_of,
    read_request,
    replying,
    run,
    serving,
)
from workers.loadgen.answer import Outcome


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_corpus_over_tcp_whatever_the_chunks_and_packets(dial: Dial, case: Case) -> None:
    async def test() -> None:
        for chunks, packets in (([1], [1]), ([3, 1, 7], [2, 5, 1, 11]), ([60], [17]), ([100_000], [100_000])):

            async def serve(
                reader: asyncio.StreamReader,
                writer: asyncio.StreamWriter,
                message: bytes = message_of(case, chunks),
                sizes: list[int] = packets,
            ) -> None:
                await read_request(reader)
                for part in parts_of(message, sizes):
                    writer.write(part)
                    await writer.drain()
                    await asyncio.sleep(0)
                writer.close()

            answer = await ask_once(dial, serve)
            case.check(answer)
            assert answer.t_sent_ns is not None
            times = [answer.t_sent_ns, answer.t_headers_ns, answer.t_first_ns, answer.t_last_ns, answer.t_end_ns]
            given = [time for time in times if time is not None]
            assert given == sorted(given)

    run(test())


def test_a_request_is_written_as_the_plan_says(dial: Dial) -> None:
    heads: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head, body = await read_request(reader)
        heads.append(head)
        assert body == b'{"a": 1}'
        writer.write(WHOLE)

    async def test() -> None:
        async with serving(serve) as url:
            connection = dial(url + "?key=x", {"Authorization": "Bearer k", "user-agent": "mine", "X-Name": " \xe9 "})
            assert (await ask(connection, b'{"a": 1}')).outcome is Outcome.OK
            connection.abort()

    run(test())
    first, *lines = heads[0].rstrip().split("\r\n")
    assert first == "POST /v1/chat/completions?key=x HTTP/1.1"
    assert len(lines) == len({line.partition(":")[0].lower() for line in lines})
    assert {
        "Authorization: Bearer k",
        "user-agent: mine",
        "X-Request-Id: id",
        "Content-Type: application/json",
        "Accept-Encoding: identity",
        "Content-Length: 8",
        "X-Name: \xe9",
    } < set(lines)


def test_one_connection_serves_many_requests_and_says_once_what_it_cost(dial: Dial) -> None:
    async def test() -> None:
        async with serving(replying(WHOLE, WHOLE, WHOLE)) as url:
            connection = dial(url)
            assert not connection.connected
            for number in range(3):
                answer = await ask(connection)
                assert (answer.outcome, answer.text, answer.resent) == (Outcome.OK, "a", False)
                assert (answer.connect_ms is not None) == (number == 0)
                assert connection.connected
            connection.abort()
            assert not connection.connected

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
def test_compressed_answers_are_read(dial: Dial, encoding: str, body: bytes) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(head_with(f"Content-Encoding: {encoding}", f"Content-Length: {len(body)}"))
        for part in parts_of(body, [1]):
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(0)

    async def test() -> None:
        answer = await ask_once(dial, serve)
        assert (answer.outcome, answer.text, answer.error) == (Outcome.OK, "a", None)

    run(test())


ZIPPED = gzip.compress(STREAM)


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
        (b"HTTP/1.1 101 Go\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n", Outcome.HTTP_ERROR, "protocol|UPGRADE"),
        (b"HTTP/1.1 307 Moved\r\nLocation: /x?k=s\r\n\r\n", Outcome.HTTP_ERROR, "redirected to /x;"),
        (b"HTTP/1.1 407 Proxy\r\nContent-Length: 0\r\n\r\n", Outcome.HTTP_ERROR, "HTTP 407"),
    ],
)  # fmt: skip
def test_what_goes_wrong_on_the_wire_is_one_clear_failure(
    dial: Dial, message: bytes, outcome: Outcome, words: str
) -> None:
    async def test() -> None:
        answer = await ask_once(dial, replying(message, close=True))
        assert answer.outcome is outcome
        assert re.search(words, answer.error or "")

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
def test_unusual_but_whole_answers_are_a_success(dial: Dial, message: bytes) -> None:
    async def test() -> None:
        answer = await ask_once(dial, replying(message, close=True))
        assert (answer.outcome, answer.text) == (Outcome.OK, "a")

    run(test())


def test_a_body_that_stays_open_after_done_does_not_hold_the_slot(dial: Dial) -> None:
    async def test() -> None:
        async with serving(replying(CHUNKED + b"%x\r\n" % len(STREAM) + STREAM)) as url:
            connection = dial(url)
            for _ in range(2):
                answer = await ask(connection)
                assert answer.outcome is Outcome.OK
                assert not connection.connected

    run(test())


def test_a_redirect_is_not_followed(dial: Dial) -> None:
    asked: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append((await read_request(reader))[0])
        writer.write(b"HTTP/1.1 308 Moved\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n")

    async def test() -> None:
        answer = await ask_once(dial, serve)
        assert (answer.outcome, answer.http_status) == (Outcome.HTTP_ERROR, 308)

    run(test())
    assert len(asked) == 1
