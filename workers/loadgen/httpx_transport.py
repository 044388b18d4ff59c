"""Speaks HTTP through httpx, for what wire does not do: proxies and HTTP/2. One connection a slot, kept alive.

Times are the event loop's. httpx connects inside a request, so the first one of a connection holds `connect_ms`; its
sent time comes after. It reads no answer before it has written the whole request.
"""

from __future__ import annotations

import asyncio
import math
import ssl
from collections.abc import Mapping
from time import monotonic_ns
from typing import Any

import anyio
import h2.events
import httpcore
import httpx

from workers.loadgen.answer import Answer, Outcome
from workers.loadgen.body import Body
from workers.loadgen.connect_words import connect_words
from workers.loadgen.headers import request_headers
from workers.loadgen.transport import CONNECT_LIMIT_S, CONNECTS_AT_ONCE, END_LIMIT_S

# A pool looks through all its connections for each request: a slot has a pool of its own.
_ONE = httpx.Limits(max_connections=1, max_keepalive_connections=1, keepalive_expiry=None)


class UnusableUrl(Exception):
    """httpx cannot take the URL."""


class HttpxTransport:
    """Connections to one URL. `headers` win over the transport's own. `http2` is offered; the server may decline.

    Raises UnusableUrl.
    """

    def __init__(
        self, url: str, headers: Mapping[str, str], tls: ssl.SSLContext, proxy: str | None = None, http2: bool = False
    ) -> None:
        self.name = "httpx"
        try:
            self.url = httpx.URL(url)
        except httpx.InvalidURL as error:
            raise UnusableUrl(str(error)) from None
        self.headers = request_headers(url, headers)
        self.connecting = asyncio.Semaphore(CONNECTS_AT_ONCE)
        self.proxy: httpx.Proxy | None = None
        if proxy is not None:
            secure = httpx.URL(proxy).scheme == "https"
            self.proxy = httpx.Proxy(proxy, ssl_context=tls if secure else None)
        self._tls = tls
        self._http2 = http2

    def connection(self) -> HttpxConnection:
        return HttpxConnection(self)

    def receiving(self) -> None:
        return None

    def pool(self) -> httpx.AsyncHTTPTransport:
        """For one connection. It follows no redirect and reads neither the environment nor .netrc."""
        return httpx.AsyncHTTPTransport(
            verify=self._tls, trust_env=False, http2=self._http2, limits=_ONE, proxy=self.proxy
        )


class HttpxConnection:
    """See `transport.Connection`."""

    def __init__(self, transport: HttpxTransport) -> None:
        self._transport = transport
        self._pool: httpx.AsyncHTTPTransport | None = None
        # Of the connection that the pool keeps.
        self._stream: httpcore.AsyncNetworkStream | None = None
        self._scope: anyio.CancelScope | None = None
        self._closing: asyncio.Task[None] | None = None

    @property
    def connected(self) -> bool:
        # What can be read without a request is an end or a farewell. Over HTTP/2 it may be a mere ping, but nothing
        # tells them apart: then connecting anew costs time before the request is sent, and a lost request would more.
        return self._stream is not None and not self._stream.get_extra_info("is_readable")

    async def ready(self) -> None:
        """httpx cannot connect without a request."""

    async def exchange(self, request_id: str, body: bytes, answer: Answer) -> None:
        headers = [*self._transport.headers, (b"X-Request-Id", request_id.encode())]
        try:
            with anyio.CancelScope() as self._scope:
                attempt = _Attempt(self._transport, answer, self._scope)
                if not await self._send(attempt, headers, body):
                    # The server closed a kept connection while the request was on its way: not its answer to this.
                    answer.resent = True
                    attempt = _Attempt(self._transport, answer, self._scope)
                    await self._send(attempt, headers, body)
        finally:
            self._scope = None
        attempt.cut()

    def abort(self) -> None:
        self._stream = None
        if self._scope is not None:
            self._scope.cancel()
        elif self._pool is not None:
            self._closing = asyncio.create_task(self._pool.aclose())
            self._pool = None

    async def _send(self, attempt: _Attempt, headers: list[tuple[bytes, bytes]], body: bytes) -> bool:
        """False when the request may be sent anew. Leaves a connection that the next request can use, or none."""
        if not self.connected:
            await self._close()
        if self._pool is None:
            self._pool = self._transport.pool()
        self._stream = None
        url = self._transport.url
        request = httpx.Request("POST", url, headers=headers, content=body, extensions={"trace": attempt.follow})
        try:
            response = await self._pool.handle_async_request(request)
            received = attempt.begin(response)
            attempt.limit_rest()
            async for part in response.aiter_raw():
                received.feed(part, monotonic_ns())
                attempt.limit_rest()
            received.finish(monotonic_ns())
            self._stream = response.extensions["network_stream"]
        except Exception as error:
            # Whatever a library raises ends a request, not the stage.
            if attempt.was_unheard(error):
                return False
            attempt.fail(error)
        finally:
            if self._stream is None:
                await self._close()
        return True

    async def _close(self) -> None:
        pool, self._pool, self._stream = self._pool, None, None
        if pool is not None:
            await pool.aclose()


class _Attempt:
    """One sending of a request: what httpx's trace tells of it, and in which words it fails."""

    def __init__(self, transport: HttpxTransport, answer: Answer, scope: anyio.CancelScope) -> None:
        """`scope` ends it when its deadline passes: connecting has one, and so has the rest of a body."""
        self._answer = answer
        self._scope = scope
        self._transport = transport
        self._connecting_ns: int | None = None
        self._sending = False
        self._begun = False
        self._to_proxy = transport.proxy is not None
        answer.t_sent_ns = answer.connect_ms = None

    async def follow(self, event: str, info: Mapping[str, Any]) -> None:
        """The `trace` extension: names are `connection.connect_tcp.started`, `http11.send_request_body.complete`."""
        where, what, how = event.split(".")
        if what == "connect_tcp":
            await self._follow_connecting(how)
        elif what == "start_tls" and where == "proxy":
            self._to_proxy = False  # through the tunnel
        elif what == "send_request_headers" and how == "started" and info["request"].method == b"POST":
            self._start_sending()
        elif what == "send_request_body" and how == "complete" and self._sending:
            self._answer.sent(monotonic_ns())

    async def _follow_connecting(self, how: str) -> None:
        if how == "started":
            await self._transport.connecting.acquire()
            self._connecting_ns = monotonic_ns()
            self._scope.deadline = anyio.current_time() + CONNECT_LIMIT_S
        else:
            self._transport.connecting.release()

    def _start_sending(self) -> None:
        if self._sending:
            # HTTP/2: the server said that it had not looked at the first one.
            self._answer.resent = True
            self._answer.t_sent_ns = None
        self._sending = True
        if self._connecting_ns is not None:
            self._answer.connect_ms = (monotonic_ns() - self._connecting_ns) / 1e6
        self._scope.deadline = math.inf

    def begin(self, response: httpx.Response) -> Body:
        """The head arrived."""
        now_ns = monotonic_ns()
        answer = self._answer
        self._begun = True
        if response.extensions["http_version"] == b"HTTP/2":
            self._transport.name = "httpx/h2"
        if answer.t_sent_ns is None:
            # It answered before it had taken the whole request: there is no later moment to call "sent".
            answer.sent(now_ns)
        headers = {name.lower(): value for name, value in response.headers.raw}
        if response.status_code == 407 and self._transport.proxy is not None:
            answer.fail(Outcome.CONNECT_ERROR, self._proxy_words("407 Proxy Authentication Required"), now_ns)
        answer.begin(response.status_code, headers, now_ns)
        return Body(answer, headers.get(b"content-encoding", b""), now_ns)

    def limit_rest(self) -> None:
        """When the answer has its outcome, the rest of the body is of use only if it ends at once."""
        if self._answer.outcome is not None and self._scope.deadline == math.inf:
            self._scope.deadline = anyio.current_time() + END_LIMIT_S

    def was_unheard(self, error: Exception) -> bool:
        """Whether a kept connection ended before a whole head came back: httpx does not tell of a part of one."""
        answered = self._begun or self._answer.outcome is not None
        return not answered and self._connecting_ns is None and _is_end(error)

    def fail(self, error: Exception) -> None:
        """The answer's end, unless it has one."""
        now_ns = monotonic_ns()
        root = _root(error)
        if self._begun:
            self._answer.lose(_rest_words(error, root), now_ns)
        elif not self._sending:
            self._answer.fail(Outcome.CONNECT_ERROR, self._connect_words(error, root), now_ns)
        elif _is_end(error):
            words = "the server closed the connection before it answered"
            self._answer.fail(Outcome.CONNECT_ERROR, words, now_ns)
        elif (reset := _reset(error)) is not None:
            words = f"the server reset the request before it answered ({reset})"
            self._answer.fail(Outcome.CONNECT_ERROR, words, now_ns)
        elif isinstance(error, httpx.LocalProtocolError):
            self._answer.fail(Outcome.HTTP_ERROR, f"the exchange is not HTTP ({root})", now_ns)
        else:
            self._answer.fail(Outcome.HTTP_ERROR, f"the answer is not HTTP ({root})", now_ns)

    def cut(self) -> None:
        """The answer's end where it has none: the exchange was ended from this side."""
        if self._answer.outcome is not None:
            return
        if not self._sending and anyio.current_time() >= self._scope.deadline:
            words = self._connect_words(TimeoutError(), TimeoutError())
            self._answer.fail(Outcome.CONNECT_ERROR, words, monotonic_ns())
        self._answer.fail(Outcome.CANCELLED, "the connection was closed from this side", monotonic_ns())

    def _connect_words(self, error: Exception, root: BaseException) -> str:
        if isinstance(error, httpx.ProxyError):
            return self._proxy_words(str(error))
        if isinstance(error, httpx.ProtocolError):
            return self._proxy_words(str(root))
        proxy = self._transport.proxy
        host, port = _place(proxy.url if proxy is not None and self._to_proxy else self._transport.url)
        return connect_words(root, host, port, "the proxy " if self._to_proxy else "")

    def _proxy_words(self, said: str) -> str:
        assert self._transport.proxy is not None
        host, port = _place(self._transport.proxy.url)
        hint = "; give its user and password as http://user:password@host in proxy" if said.startswith("407") else ""
        return f"the proxy {host} port {port} refused: {said}{hint}"


def _place(url: httpx.URL) -> tuple[str, int]:
    return url.host, url.port or (443 if url.scheme == "https" else 80)


def _root(error: BaseException) -> BaseException:
    """What an error was raised from in the first place. httpcore drops the cause, but keeps it as the argument."""
    while True:
        if isinstance(error, BaseExceptionGroup):
            error = error.exceptions[-1]
        elif error.__cause__ is not None:
            error = error.__cause__
        elif error.args and isinstance(error.args[0], BaseException):
            error = error.args[0]
        else:
            return error


def _reset(error: BaseException) -> str | None:
    """The code with which an HTTP/2 server ended the stream alone; null when it did not."""
    event = next(iter(_root(error).args), None)
    if not isinstance(event, h2.events.StreamReset):
        return None
    return getattr(event.error_code, "name", str(event.error_code))


def _is_end(error: Exception) -> bool:
    """Whether the connection ended, rather than something wrong came."""
    if isinstance(error, httpx.RemoteProtocolError):
        # httpcore says itself that the connection ended; what it was sent wrongly, its parser says.
        return isinstance(_root(error), httpcore.RemoteProtocolError) and _reset(error) is None
    return isinstance(error, httpx.NetworkError)


def _rest_words(error: Exception, root: BaseException) -> str:
    reset = _reset(error)
    if reset is not None:
        return f"the server reset the stream ({reset})"
    if _is_end(error):
        words = getattr(root, "strerror", None)
        return str(words or "the server closed the connection")
    return f"its HTTP framing is broken ({root})"
