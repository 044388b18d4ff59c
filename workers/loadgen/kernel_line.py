"""A line on a bare TCP socket: what arrives carries the time at which the kernel received it (Linux, SO_TIMESTAMPNS).

Such a time does not depend on when this process gets to read, however busy it is.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from time import monotonic_ns

from workers.loadgen.line import Line
from workers.loadgen.poller import Poller

# Linux's number, also of the control message; the socket module does not name it.
SO_TIMESTAMPNS = 35
SUPPORTED = sys.platform == "linux" and sys.maxsize > 2**32
_CONTROL_BYTES = socket.CMSG_SPACE(16) if SUPPORTED else 0
_ALL_BYTES = 1 << 16
_FIRST_BYTES = 1 << 12
_LEAST_BYTES = 16
# Parts that came within this time need not be told apart.
_SAME_NS = 50_000
# Beyond so many reads' worth of waiting bytes the server sends faster than one could tell its events apart.
_SPLIT_MAX = 16
# Counts what waits without taking it.
_COUNT_ONLY = int(socket.MSG_PEEK | socket.MSG_TRUNC) if SUPPORTED else 0
_untouched = bytearray(_ALL_BYTES)


class KernelLine(Line):
    """One read has one stamp, that of its last byte. So a read has room for one event and a half, by the size of those
    before it; when more waits, and came later, it is read in parts that small, each with its own stamp. (The kernel
    merges what waits for long: what it has merged has the stamp of the last part.)
    """

    def __init__(self, sock: socket.socket, poller: Poller) -> None:
        super().__init__()
        self._socket = sock
        self._poller = poller
        self._unsent = b""
        self._room = _FIRST_BYTES
        self._small = _FIRST_BYTES // 2
        self._receive = sock.recvmsg
        self._closed = False
        poller.add(sock.fileno(), self)
        self.usable = True

    @classmethod
    async def connect(cls, host: str, port: int, poller: Poller) -> KernelLine:
        """Raises OSError: of the last address tried, when the name has several."""
        loop = asyncio.get_running_loop()
        failure: OSError | None = None
        for family, kind, protocol, _, address in await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM):
            sock = socket.socket(family, kind, protocol)
            try:
                sock.setblocking(False)
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
                await loop.sock_connect(sock, address)
                return cls(sock, poller)
            except OSError as error:
                sock.close()
                failure = error
            except BaseException:
                sock.close()
                raise
        raise failure or OSError(f"{host} has no address")

    def readable(self) -> None:
        """Called by the poller."""
        size = self._room
        while not self._closed:
            try:
                data, control, _, _ = self._receive(size, _CONTROL_BYTES)
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                self._end(error)
                return
            if not data:
                self._end(None)
                return
            count = len(data)
            if not self._small < count < size:
                self._fit_room(count)
            stamp_ns = self._poller.stamp_ns(control)
            self._received(data, stamp_ns)
            if count < size:
                return
            size = self._next_size(size, stamp_ns)

    def _fit_room(self, count: int) -> None:
        """Draw the room for a read closer to one and a half of what came, when that was much less, or did not fit."""
        wanted = min(count + (count >> 1) + _LEAST_BYTES, _ALL_BYTES)
        self._room += (wanted - self._room) // 4
        self._small = self._room // 2

    def broken(self, error: Exception) -> None:
        """Called by the poller: reading what came failed in a way that nobody foresaw."""
        self._fail(f"the answer cannot be read ({type(error).__name__})")

    def writable(self) -> None:
        """Called by the poller while bytes wait."""
        before_ns = monotonic_ns()
        try:
            self._unsent = self._unsent[self._socket.send(self._unsent) :]
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            # What the server said before it closed is still to be read; reading also finds that it closed.
            self._unsent = b""
        if not self._unsent:
            self._poller.watch(self._socket.fileno(), writing=False)
            self._written(before_ns)

    def _next_size(self, size: int, stamp_ns: int) -> int:
        """How much to read next of what waits: all of it, unless it came later than what was read."""
        if self._closed:
            return 0
        try:
            waiting, control, _, _ = self._socket.recvmsg_into((_untouched,), _CONTROL_BYTES, _COUNT_ONLY)
        except OSError:
            return size
        if not control or waiting > size * _SPLIT_MAX:
            return _ALL_BYTES
        last_ns = self._poller.stamp_ns(control)
        return _ALL_BYTES if last_ns - stamp_ns <= _SAME_NS else size

    def _write(self, data: bytes) -> bool:
        try:
            sent = self._socket.send(data)
        except (BlockingIOError, InterruptedError):
            sent = 0
        except OSError:
            return True  # reading finds that it closed
        self._unsent = data[sent:]
        if self._unsent:
            self._poller.watch(self._socket.fileno(), writing=True)
        return not self._unsent

    @property
    def _writing(self) -> bool:
        return bool(self._unsent)

    def _end(self, error: OSError | None) -> None:
        self._close()
        self._lost(error, monotonic_ns())

    def _close(self) -> None:
        if not self._closed:
            self._closed = True
            self._unsent = b""
            self._poller.remove(self._socket.fileno())
            self._socket.close()
