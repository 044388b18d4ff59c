"""Learns the bytes around the text of a stream's plain events, to know the next one without parsing it.

A stream repeats one event whose text alone changes. Reading JSON anew for each costs more than all the rest of a token.
"""

from __future__ import annotations

from typing import NamedTuple

from workers.loadgen.payload import Reading, read_payload

_FIELD = b"data: "
_END = b"\n\n"
_OTHER_TEXT = "other text"


class Shape(NamedTuple):
    """`before` ends with the quote that opens the text, `after` begins with the one that closes it."""

    before: bytes
    start: int
    after: bytes
    after_length: int


def shape_of(payload: bytes, reading: Reading) -> Shape | None:
    """The shape of an event that carried a plain text and nothing else; null for any other.

    Proven, not guessed: with another text in the place found, the event must read the same but for that text.
    """
    text = reading.text
    if not text or reading.finish_reason is not None or reading.usage is not None or text == _OTHER_TEXT:
        return None
    quoted = b'"%s"' % text.encode("utf-8", "replace")
    place = payload.find(quoted)
    if place < 0:
        return None
    before, after = payload[: place + 1], payload[place + len(quoted) - 1 :]
    reading.text = _OTHER_TEXT
    same = read_payload(before + _OTHER_TEXT.encode() + after) == reading
    reading.text = text
    if not same:
        return None
    before, after = _FIELD + before, after + _END
    return Shape(before, len(before), after, len(after))


def has_shape(data: bytes, shape: Shape) -> bool:
    """Whether these bytes are exactly one event of that shape, with a text that needs no unescaping."""
    before, start, after, after_length = shape
    return (
        data.startswith(before)
        and data.endswith(after)
        # The first quote after the text's beginning is the one that closes it, and the text is not empty.
        and start < data.find(b'"', start) == len(data) - after_length
        and data.find(b"\\", start) < 0
        # One line: the event's own end is the first.
        and data.find(b"\n", start) == len(data) - 2
        and data.find(b"\r", start) < 0
    )
