"""HTTP/1.1 servers on raw sockets for the tests of transports: what they answer is bytes, chosen by the test."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from itertools import cycle
from typing import Any, Protocol

import uvloop

from tests.loadgen.corpus import Case
from workers.loadgen.answer import Answer
from workers.loadgen.transport import Connection

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
STREAM = (
    b'data: {"choices":[{"delta":{"content":"a"}}]}\n\ndata: {"choices":[{"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
)
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
WHOLE = HEAD + b"Content-Length: %d\r\n\r\n" % len(STREAM) + STREAM
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"


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
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
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


def head_with(*lines: str) -> bytes:
    return HEAD + "".join(f"{line}\r\n" for line in lines).encode() + b"\r\n"


def message_of(case: Case, chunk_sizes: list[int]) -> bytes:
    """The case's whole HTTP answer; chunks have the sizes given, in turn."""
    headers = {"Content-Type": case.content_type} | case.headers
    body = case.body
    if case.framing == "length":
        headers["Content-Length"] = str(len(body))
    elif case.framing == "chunked":
        headers["Transfer-Encoding"] = "chunked"
        chunks = [b"%x\r\n%s\r\n" % (len(part), part) for part in parts_of(body, chunk_sizes)]
        body = b"".join(chunks) + b"0\r\n\r\n"
    lines = [f"HTTP/1.1 {case.status} Whatever", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
    return "\r\n".join(lines).encode() + body


def parts_of(data: bytes, sizes: list[int]) -> list[bytes]:
    """Cut into parts of the sizes given, in turn."""
    parts = []
    for size in cycle(sizes):
        if not data:
            break
        parts.append(data[:size])
        data = data[size:]
    return parts


class Dial(Protocol):
    """Makes a connection to a URL."""

    def __call__(
        self, url: str, headers: Mapping[str, str] | None = None, tls: ssl.SSLContext | None = None
    ) -> Connection: ...


async def ask(connection: Connection, body: bytes = b"{}") -> Answer:
    answer = Answer(keep_text=True)
    await connection.exchange("id", body, answer)
    assert answer.outcome is not None
    return answer


async def ask_once(dial: Dial, serve: Serve) -> Answer:
    async with serving(serve) as url:
        connection = dial(url)
        answer = await ask(connection)
        connection.abort()
        return answer
