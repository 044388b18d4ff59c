"""What a stage asks of whatever speaks HTTP for it: `wire`, which measures best, or `httpx_transport`."""

from __future__ import annotations

from typing import Protocol

import msgspec

from workers.loadgen.answer import Answer

CONNECT_LIMIT_S = 10.0
# A server's listen queue is often 128: more connections at once would be refused or wait for a retransmission.
CONNECTS_AT_ONCE = 64
# After [DONE] the end of the body follows within a millisecond; a server that leaves it out gets a new connection.
END_LIMIT_S = 0.25


class ConnectError(Exception):
    """No connection could be made; the message says why, in words, and holds no secret."""


class Receiving(msgspec.Struct, frozen=True):
    """How a transport with kernel stamps received.

    `delays` counts reads by their delay after the kernel, in steps of `step_ns`; the last step holds all longer ones.
    `unstamped`: reads to which the kernel gave no time.
    """

    step_ns: int
    delays: dict[int, int]
    longest_ns: int
    unstamped: int


class Connection(Protocol):
    """The line of one slot: carries one request at a time and is made anew when the server closed it."""

    @property
    def connected(self) -> bool:
        """Whether a request could be sent at once."""
        ...

    async def ready(self) -> None:
        """Connect if need be, where that can be done without a request. Raises ConnectError."""
        ...

    async def exchange(self, request_id: str, body: bytes, answer: Answer) -> None:
        """Send one request and feed `answer`; returns when the line is free again. `answer.outcome` is set then."""
        ...

    def abort(self) -> None:
        """Close the line at once; a pending `exchange` returns."""
        ...


class Transport(Protocol):
    name: str

    def connection(self) -> Connection: ...

    def receiving(self) -> Receiving | None:
        """Counted since the last call; null: what arrived was stamped by the event loop."""
        ...
