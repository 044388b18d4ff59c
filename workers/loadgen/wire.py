"""Speaks HTTP/1.1 over plain TCP or TLS: the transport that measures. One connection a slot, kept alive.

On Linux what arrives by plain TCP has the kernel's receive time. The environment's proxy is ignored.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import Mapping
from time import monotonic_ns
from urllib.parse import urlsplit

from workers.loadgen.answer import Answer, Outcome
from workers.loadgen.kernel_line import SUPPORTED, KernelLine
from workers.loadgen.line import Line
from workers.loadgen.loop_line import LoopLine
from workers.loadgen.poller import Poller
from workers.loadgen.transport import ConnectError, Receiving

CONNECT_LIMIT_S = 10.0
# A server's listen queue is often 128: more connections at once would be refused or wait for a retransmission.
CONNECTS_AT_ONCE = 64


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
                await (await self._ready_line()).exchange(request, answer)
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
        place = f"{to.host} port {to.port}"
        async with to.connecting:
            started_ns = monotonic_ns()
            try:
                async with asyncio.timeout(CONNECT_LIMIT_S):
                    made = await self._open()
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
                words = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
                raise ConnectError(f"no connection to {place}: {words}") from None
        made.connect_ms = (monotonic_ns() - started_ns) / 1e6
        return made

    async def _open(self) -> Line:
        to = self._transport
        if to.tls is None and SUPPORTED:
            return await KernelLine.connect(to.host, to.port, to.poller())
        return await LoopLine.connect(to.host, to.port, to.tls)


def _tls_context(verify: bool) -> ssl.SSLContext:
    context = ssl.create_default_context()
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["http/1.1"])
    return context
