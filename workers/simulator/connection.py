"""One HTTP/1.1 connection of the server: bytes in, requests out, answers back in order. Knows no paths, no engine."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import cast

import httptools

BODY_LIMIT = 16 * 2**20
HEAD_LIMIT = 64 * 2**10
_SERVER = "brimline-simulator"


@dataclass(slots=True)
class Request:
    """`path` without the query; header names in lower case."""

    method: str = ""
    path: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    keep_alive: bool = True


class Reply:
    """The answer to one request: `send`; or `start`, then `write` as often as needed, then `end`. `on_lost` is called
    when the client goes before the end."""

    def __init__(self, transport: asyncio.Transport, keep_alive: bool, on_end: Callable[[], None]) -> None:
        self._transport = transport
        self.keep_alive = keep_alive
        self._on_end = on_end
        self.on_lost: Callable[[], None] | None = None

    def send(self, status: int, body: bytes, content_type: str = "application/json") -> None:
        self._transport.write(self._head(status, content_type, b"Content-Length: %d" % len(body)) + body)
        self._on_end()

    def start(self, content_type: str) -> None:
        """200, with a body of unknown length."""
        self._transport.write(self._head(200, content_type, b"Transfer-Encoding: chunked"))

    def write(self, data: bytes) -> None:
        self._transport.write(b"%x\r\n%b\r\n" % (len(data), data))

    def end(self, data: bytes) -> None:
        self._transport.write(b"%x\r\n%b\r\n0\r\n\r\n" % (len(data), data))
        self._on_end()

    def _head(self, status: int, content_type: str, length: bytes) -> bytes:
        connection = b"keep-alive" if self.keep_alive else b"close"
        first = (
            f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\nServer: {_SERVER}\r\nContent-Type: {content_type}\r\n"
        )
        return b"%bConnection: %b\r\n%b\r\n\r\n" % (first.encode(), connection, length)


class HttpConnection(asyncio.Protocol):
    """Answers one request at a time; what a client sends ahead waits. `connections` holds it while it is open."""

    def __init__(
        self,
        handle: Callable[[Request, Reply], None],
        error_body: Callable[[int, str], bytes],
        connections: set[HttpConnection],
    ) -> None:
        self._handle = handle
        self._error_body = error_body
        self._connections = connections
        self._parser = httptools.HttpRequestParser(self)
        self._request = Request()
        self._url = b""
        self._in_head = True
        self._heads = 0
        self._head_bytes = 0
        self._body = bytearray()
        self._ahead: deque[Request] = deque()
        self._reply: Reply | None = None
        self._refusal: tuple[int, str] | None = None

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._connections.add(self)

    def data_received(self, data: bytes) -> None:
        if self._refusal is not None:
            return
        in_head, heads = self._in_head, self._heads
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._refusal = (400, "The server speaks HTTP/1.1 only; send no Upgrade header.")
        except httptools.HttpParserError as error:
            self._refusal = (400, f"This is not HTTP/1.1: {error}")
        if in_head and self._in_head and self._heads == heads:
            # All of it went into one head that is still open, of which the parser tells nothing yet.
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_LIMIT:
                self._refusal = (431, f"The head is longer than {HEAD_LIMIT} bytes.")
        self._next()

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.discard(self)
        self._ahead.clear()
        if self._reply is not None and self._reply.on_lost is not None:
            self._reply.on_lost()

    def abort(self) -> None:
        self._transport.abort()

    # What the parser calls.

    def on_message_begin(self) -> None:
        self._request = Request()
        self._url = b""
        self._body = bytearray()

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._request.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._heads += 1
        self._head_bytes = 0
        self._request.method = self._parser.get_method().decode()
        self._request.path = self._url.partition(b"?")[0].decode("latin-1")
        if self._request.headers.get("expect", "").lower() == "100-continue":
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, body: bytes) -> None:
        if len(self._body) + len(body) > BODY_LIMIT:
            self._refusal = (413, f"The body is longer than {BODY_LIMIT} bytes.")
        else:
            self._body += body

    def on_message_complete(self) -> None:
        self._in_head = True
        if self._refusal is not None:
            return
        self._request.body = bytes(self._body)
        self._request.keep_alive = self._parser.should_keep_alive()
        self._ahead.append(self._request)

    def _next(self) -> None:
        """Takes up the next request, or refuses what came after them, once the one before is answered."""
        if self._reply is not None or self._transport.is_closing():
            return
        if self._ahead:
            request = self._ahead.popleft()
            self._reply = Reply(self._transport, request.keep_alive, self._answered)
            self._handle(request, self._reply)
        elif self._refusal is not None:
            status, message = self._refusal
            self._reply = Reply(self._transport, False, self._transport.close)
            self._reply.send(status, self._error_body(status, message))

    def _answered(self) -> None:
        assert self._reply is not None
        keep_alive = self._reply.keep_alive
        self._reply = None
        if keep_alive:
            self._next()
        else:
            self._transport.close()
