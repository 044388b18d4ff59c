"""Speaks HTTP/1.1 over plain TCP or TLS: the transport that measures. One connection a slot, kept alive.

It stamps times and feeds `Answer`; what the bytes mean is not its business. The environment's proxy is ignored.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Mapping
from time import monotonic_ns
from typing import cast
from urllib.parse import urlsplit

import httptools

from workers.loadgen.answer import Answer, Outcome
from workers.loadgen.encoding import EncodingError, Inflater, inflater_for
from workers.loadgen.transport import ConnectError

CONNECT_LIMIT_S = 10.0
# A server's listen queue is often 128: more connections at once would be refused or wait for a retransmission.
CONNECTS_AT_ONCE = 64
# After [DONE] the end of the body follows within a millisecond; a server that leaves it out gets a new connection.
END_LIMIT_S = 0.25


class WireTransport:
    """Connections to one URL. `headers` are sent with every request and win over the ones it would send itself."""

    name = "wire"

    def __init__(self, url: str, headers: Mapping[str, str], verify_tls: bool) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None
        self.host = parts.hostname
        self.tls = _tls_context(verify_tls) if parts.scheme == "https" else None
        self.port = parts.port or (443 if self.tls else 80)
        target = parts.path + (f"?{parts.query}" if parts.query else "")
        own = {
            "Host": parts.netloc,
            "User-Agent": "brimline-loadgen",
            "Accept": "text/event-stream, application/json",
            "Accept-Encoding": "identity",
            "Content-Type": "application/json",
        }
        given = {name.lower() for name in headers}
        lines = [f"{name}: {value}" for name, value in own.items() if name.lower() not in given]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        self.head = "\r\n".join([f"POST {target} HTTP/1.1", *lines, ""]).encode("latin-1")
        self.connecting = asyncio.Semaphore(CONNECTS_AT_ONCE)

    def connection(self) -> WireConnection:
        return WireConnection(self)


class WireConnection:
    """See `transport.Connection`."""

    def __init__(self, transport: WireTransport) -> None:
        self._transport = transport
        self._socket: _Socket | None = None

    @property
    def connected(self) -> bool:
        return self._socket is not None and self._socket.usable

    async def ready(self) -> None:
        await self._ready_socket()

    async def exchange(self, request_id: str, body: bytes, answer: Answer) -> None:
        head = b"%sX-Request-Id: %s\r\nContent-Length: %d\r\n\r\n"
        request = head % (self._transport.head, request_id.encode(), len(body)) + body
        try:
            if not await (await self._ready_socket()).exchange(request, answer):
                # The server closed a kept connection while the request was on its way: not its answer to this request.
                answer.resent = True
                await (await self._ready_socket()).exchange(request, answer)
        except ConnectError as error:
            answer.fail(Outcome.CONNECT_ERROR, str(error), monotonic_ns())

    def abort(self) -> None:
        if self._socket is not None:
            self._socket.abort()

    async def _ready_socket(self) -> _Socket:
        if self._socket is None or not self._socket.usable:
            self._socket = await self._connect()
        return self._socket

    async def _connect(self) -> _Socket:
        to = self._transport
        loop = asyncio.get_running_loop()
        place = f"{to.host} port {to.port}"
        async with to.connecting:
            started_ns = monotonic_ns()
            try:
                async with asyncio.timeout(CONNECT_LIMIT_S):
                    name = to.host if to.tls else None
                    _, made = await loop.create_connection(_Socket, to.host, to.port, ssl=to.tls, server_hostname=name)
            except TimeoutError:
                raise ConnectError(f"no connection to {place} within {CONNECT_LIMIT_S:.0f} s") from None
            except ssl.SSLCertVerificationError as error:
                hint = "trust its authority through SSL_CERT_FILE or set verify_tls to false"
                raise ConnectError(f"certificate not trusted: {error.verify_message}; {hint}") from None
            except ssl.SSLError as error:
                raise ConnectError(f"no TLS at {place}: {error.reason or error}; is the address https?") from None
            except socket.gaierror as error:
                raise ConnectError(f"the host {to.host} cannot be resolved: {error.strerror}") from None
            except (OSError, UnicodeError) as error:
                words = getattr(error, "strerror", None) or str(error)
                raise ConnectError(f"no connection to {place}: {words}") from None
        made.connect_ms = (monotonic_ns() - started_ns) / 1e6
        return made


class _Socket(asyncio.Protocol):
    """One socket and its parser. `usable`: the next request can be sent on it."""

    def __init__(self) -> None:
        self.usable = False
        self.connect_ms: float | None = None
        self._used = False
        self._parser = httptools.HttpResponseParser(self)
        self._answer: Answer | None = None
        self._waiter: asyncio.Future[bool] | None = None
        self._end_timer: asyncio.TimerHandle | None = None
        self._now_ns = 0
        self._reset()

    def _reset(self) -> None:
        self._headers: dict[bytes, bytes] = {}
        self._in_body = False
        self._framed = True
        self._heard = False
        self._keep_alive = True
        self._inflater: Inflater | None = None

    async def exchange(self, request: bytes, answer: Answer) -> bool:
        """False when a kept connection closed before a byte came back: the request may be sent anew."""
        kept, self._used, self.usable = self._used, True, False
        answer.connect_ms = None if kept else self.connect_ms
        self._reset()
        self._answer = answer
        answer.t_sent_ns = None
        self._waiter = asyncio.get_running_loop().create_future()
        # Where all goes in one call, its start is the time: this process may lose the CPU before the call returns,
        # while the server is at work already.
        before_ns = monotonic_ns()
        self._transport.write(request)
        if self._transport.get_write_buffer_size() == 0:
            answer.sent(before_ns)
        try:
            await self._waiter
        finally:
            self._waiter = self._answer = None
            if self._end_timer is not None:
                self._end_timer.cancel()
                self._end_timer = None
        if answer.outcome is not None:
            return True
        if kept and not self._heard:
            return False
        answer.fail(Outcome.CONNECT_ERROR, "the server closed the connection before it answered", self._now_ns)
        return True

    def abort(self) -> None:
        self.usable = False
        self._transport.abort()
        self._wake()

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport = cast(asyncio.Transport, transport)
        # With no room to buffer, write() hands its bytes to the socket at once and tells when the last one went.
        transport.set_write_buffer_limits(high=0)
        raw = transport.get_extra_info("socket")
        if raw is not None:
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.usable = True

    def resume_writing(self) -> None:
        if self._answer is not None and self._answer.t_sent_ns is None:
            self._answer.sent(monotonic_ns())

    def data_received(self, data: bytes) -> None:
        answer = self._answer
        if answer is None or self._answered:
            # Nothing was asked: an unasked answer, like 408, before the server closes.
            self.abort()
            return
        self._now_ns = monotonic_ns()
        self._heard = True
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._fail_parsing(answer, error)
            return
        if answer.outcome is not None and not self._answered and self._end_timer is None:
            self._end_timer = asyncio.get_running_loop().call_later(END_LIMIT_S, self.abort)

    def connection_lost(self, error: Exception | None) -> None:
        self.usable = False
        self._now_ns = monotonic_ns()
        answer = self._answer
        if answer is not None and self._in_body:
            if error is None and not self._framed:
                self._finish(answer)
            else:
                answer.lose(str(error or "the server closed the connection"), self._now_ns)
        self._wake()

    # httptools

    def on_message_begin(self) -> None:
        if self._answered:
            self.abort()

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._in_body:
            self._headers[name.lower()] = value

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        answer = self._answer
        if status < 200 or answer is None:
            return
        self._in_body = True
        self._keep_alive = self._parser.should_keep_alive()
        headers = self._headers
        self._framed = b"content-length" in headers or b"chunked" in headers.get(b"transfer-encoding", b"").lower()
        if answer.t_sent_ns is None:
            # It answered before it had read the whole request: there is no later moment to call "sent".
            answer.sent(self._now_ns)
        answer.begin(status, headers, self._now_ns)
        try:
            self._inflater = inflater_for(headers.get(b"content-encoding", b""))
        except EncodingError as error:
            answer.lose(str(error), self._now_ns)

    def on_body(self, data: bytes) -> None:
        answer = self._answer
        if answer is None or answer.outcome is not None:
            return
        if self._inflater is None:
            answer.feed(data, self._now_ns)
            return
        try:
            for part in self._inflater.feed(data):
                answer.feed(part, self._now_ns)
        except EncodingError as error:
            answer.lose(str(error), self._now_ns)

    def on_message_complete(self) -> None:
        if not self._in_body:
            self._headers = {}  # of a 1xx answer
            return
        answer = self._answer
        if answer is None or self._answered:
            return
        self._finish(answer)
        if self._keep_alive and self._transport.get_write_buffer_size() == 0:
            self.usable = True
        else:
            self._transport.abort()
        self._wake()

    def _finish(self, answer: Answer) -> None:
        if self._inflater is not None and not self._inflater.whole:
            answer.lose("its compression has no end", self._now_ns)
        answer.finish(self._now_ns)

    def _fail_parsing(self, answer: Answer, error: Exception) -> None:
        if self._in_body:
            answer.lose(f"its HTTP framing is broken ({error})", self._now_ns)
        elif isinstance(error, httptools.HttpParserUpgrade):
            answer.fail(Outcome.HTTP_ERROR, "the server asked for another protocol", self._now_ns)
        else:
            answer.fail(Outcome.HTTP_ERROR, f"the answer is not HTTP/1.1 ({error})", self._now_ns)
        self.abort()

    @property
    def _answered(self) -> bool:
        return self._waiter is None or self._waiter.done()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(True)


def _tls_context(verify: bool) -> ssl.SSLContext:
    context = ssl.create_default_context()
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["http/1.1"])
    return context
