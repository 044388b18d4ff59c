"""Splits the bytes of an event stream (WHATWG server-sent events) into events, however the bytes are cut.

Line ends may be LF, CRLF or CR. Knows nothing of JSON or of what an event means.
"""

from __future__ import annotations

from typing import TypeAlias

EVENT_BYTES_MAX = 16 * 1024 * 1024
_BOM = b"\xef\xbb\xbf"


# Its name, empty when the stream gave none, and its data, lines joined by LF. A plain tuple: there are millions.
Event: TypeAlias = tuple[bytes, bytes]


class EventTooLong(Exception):
    """An event grew beyond EVENT_BYTES_MAX without an end."""


class EventSplitter:
    """Feed bytes, get the events that they complete. Comments and fields other than `data` and `event` are dropped."""

    __slots__ = ("_at_start", "_held", "_skip_lf")

    def __init__(self) -> None:
        self._held = b""
        self._skip_lf = False
        self._at_start = True

    @property
    def pending(self) -> bool:
        """Whether what comes next may belong to an event, or to a line end, that has begun."""
        return bool(self._held) or self._skip_lf

    def feed(self, data: bytes) -> list[Event]:
        """Raises EventTooLong."""
        if self._skip_lf:
            if not data:
                return []
            self._skip_lf = False
            if data[0] == 10:
                data = data[1:]
        elif (
            # Nearly every read: one whole event of one line. The general way below gives the same.
            not self._held
            and data.startswith(b"data: ")
            and data.find(b"\n") == len(data) - 2
            and data[-1] == 10
            and b"\r" not in data
        ):
            self._at_start = False
            return [(b"", data[6:-2])]
        if b"\r" in data:
            # A CR ends its line at once; the LF of a pair that is cut in two is dropped when it comes.
            self._skip_lf = data.endswith(b"\r")
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        held = self._held
        if b"\n\n" not in data and not (held.endswith(b"\n") and data.startswith(b"\n")):
            self._held = held + data
            if len(self._held) > EVENT_BYTES_MAX:
                raise EventTooLong
            return []
        blocks = (held + data).split(b"\n\n")
        self._held = blocks.pop()
        return [event for block in blocks if (event := self._parse(block)) is not None]

    def finish(self) -> Event | None:
        """At the end of the stream: the last event, when the blank line after it is missing."""
        block, self._held = self._held, b""
        return self._parse(block)

    def _parse(self, block: bytes) -> Event | None:
        if self._at_start:
            self._at_start = False
            block = block.removeprefix(_BOM)
        if block.startswith(b"data: ") and b"\n" not in block:
            return b"", block[6:]
        name = b""
        lines: list[bytes] = []
        for line in block.split(b"\n"):
            field, _, value = line.partition(b":")
            if field == b"data":
                lines.append(value.removeprefix(b" "))
            elif field == b"event":
                name = value.removeprefix(b" ")
        return (name, b"\n".join(lines)) if name or lines else None
