"""A line through the event loop's own transport: for TLS, and where the kernel gives no receive stamps."""

from __future__ import annotations

import asyncio
import socket
import ssl
from time import monotonic_ns
from typing import cast

from workers.loadgen.line import Line

_SLICE_BYTES = 1 << 16


class LoopLine(Line, asyncio.Protocol):
    """What arrives is stamped when the event loop hands it over."""

    _unsent = memoryview(b"")

    @classmethod
    async def connect(cls, host: str, port: int, tls: ssl.SSLContext | None) -> LoopLine:
        """Raises OSError, ssl.SSLError."""
        loop = asyncio.get_running_loop()
        name = host if tls else None
        _, line = await loop.create_connection(cls, host, port, ssl=tls, server_hostname=name)
        return line

    def _write(self, data: bytes) -> bool:
        self._unsent = memoryview(data)
        return self._push()

    def _push(self) -> bool:
        """Whether all went. In slices: what TLS has encrypted waits where it is not counted, and would seem sent."""
        while self._unsent:
            part, self._unsent = self._unsent[:_SLICE_BYTES], self._unsent[_SLICE_BYTES:]
            self._transport.write(part)
            if self._transport.get_write_buffer_size():
                return False
        return True

    @property
    def _writing(self) -> bool:
        return bool(self._unsent) or self._transport.get_write_buffer_size() > 0

    def _close(self) -> None:
        self._transport.abort()

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
        if self._push():
            self._written(monotonic_ns())

    def data_received(self, data: bytes) -> None:
        self._received(data, monotonic_ns())

    def connection_lost(self, error: Exception | None) -> None:
        self._lost(error, monotonic_ns())
