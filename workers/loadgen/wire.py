"""Speaks HTTP/1.1 over plain TCP or TLS: the transport that measures. One connection a slot, kept alive.

On Linux what arrives by plain TCP has the kernel's receive time. The environment's proxy is ignored.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from time import monotonic_ns
from urllib.parse import urlsplit

from workers.loadgen.answer import Answer, Outcome
from workers.loadgen.connect_words import connect_words
from workers.loadgen.headers import request_headers
from workers.loadgen.kernel_line import SUPPORTED, KernelLine
from workers.loadgen.line import Line
from workers.loadgen.loop_line import LoopLine
from workers.loadgen.poller import Poller
from workers.loadgen.transport import CONNECT_LIMIT_S, CONNECTS_AT_ONCE, ConnectError, Receiving


class WireTransport:
    """Connections to one URL, which is where `tls` is used if it is https. `headers` win over the transport's own."""

    name = "wire"

    def __init__(self, url: str, headers: Mapping[str, str], tls: ssl.SSLContext) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None
        self.host = parts.hostname
        self.tls = tls if parts.scheme == "https" else None
        self.port = parts.port or (443 if self.tls else 80)
        target = parts.path + (f"?{parts.query}" if parts.query else "")
        lines = [b"%s: %s\r\n" % header for header in request_headers(url, headers)]
        self.head = b"POST %s HTTP/1.1\r\n" % target.encode("latin-1") + b"".join(lines)
        self.connecting = asyncio.Semaphore(CONNECTS_AT_ONCE)
        self._poller: Poller | None = None

    def connection(self) -> WireConnection:
        return WireConnection(self)

    def poller(self) -> Poller:
        """The running loop's, made when the first line needs it."""
        if self._poller is None:
            self._poller = Poller(asyncio.get_running_loop())
        return self._poller

    def receiving(self) -> Receiving | None:
        return self._poller.receiving() if self._poller is not None else None


class WireConnection:
    """See `transport.Connection`."""

    def __init__(self, transport: WireTransport) -> None:
        self._transport = transport
        self._line: Line | None = None

    @property
    def connected(self) -> bool:
        return self._line is not None and self._line.usable

    async def ready(self) -> None:
        await self._ready_line()

    async def exchange(self, request_id: str, body: bytes, answer: Answer) -> None:
        head = b"%sX-Request-Id: %s\r\nContent-Length: %d\r\n\r\n"
        request = head % (self._transport.head, request_id.encode(), len(body)) + body
        try:
            if not await (await self._ready_line()).exchange(request, answer):
                # The server closed a kept connection while the request was on its way: not its answer to this request.
                answer.resent = True
                line = await self._ready_line()
                if answer.outcome is None:  # its time may have run out meanwhile
                    await line.exchange(request, answer)
        except ConnectError as error:
            answer.fail(Outcome.CONNECT_ERROR, str(error), monotonic_ns())

    def abort(self) -> None:
        if self._line is not None:
            self._line.abort()

    async def _ready_line(self) -> Line:
        if self._line is None or not self._line.usable:
            self._line = await self._connect()
        return self._line

    async def _connect(self) -> Line:
        to = self._transport
        async with to.connecting:
            started_ns = monotonic_ns()
            try:
                async with asyncio.timeout(CONNECT_LIMIT_S):
                    made = await self._open()
            except (OSError, UnicodeError) as error:
                raise ConnectError(connect_words(error, to.host, to.port)) from None
        made.connect_ms = (monotonic_ns() - started_ns) / 1e6
        return made

    async def _open(self) -> Line:
        to = self._transport
        if to.tls is None and SUPPORTED:
            return await KernelLine.connect(to.host, to.port, to.poller())
        return await LoopLine.connect(to.host, to.port, to.tls)
