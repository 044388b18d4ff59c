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
    """`before` ends with the quote that opens the text, `after` begins with the one that closes it. `said`: the text is
    no thought.
    """

    before: bytes
    start: int
    after: bytes
    after_length: int
    said: bool


def shape_of(payload: bytes, reading: Reading) -> Shape | None:
    """The shape of an event that carried a plain text and nothing else; null for any other.

    Proven, not guessed: with another text in the place found, the event must read the same but for that text.
    """
    text, said = reading.text, reading.said
    if not text or reading.finish_reason is not None or reading.usage is not None or text == _OTHER_TEXT:
        return None
    if said and said != text:
        return None
    quoted = b'"%s"' % text.encode("utf-8", "replace")
    place = payload.find(quoted)
    if place < 0:
        return None
    before, after = payload[: place + 1], payload[place + len(quoted) - 1 :]
    reading.text, reading.said = _OTHER_TEXT, _OTHER_TEXT if said else ""
    same = read_payload(before + _OTHER_TEXT.encode() + after) == reading
    reading.text, reading.said = text, said
    if not same:
        return None
    before, after = _FIELD + before, after + _END
    return Shape(before, len(before), after, len(after), bool(said))


def has_shape(data: bytes, shape: Shape) -> bool:
    """Whether these bytes are exactly one event of that shape, with a text that needs no unescaping."""
    before, start, after, after_length, _ = shape
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


def text_in(data: bytes, shape: Shape) -> str:
    """The text of an event that has that shape."""
    return data[shape.start : -shape.after_length].decode("utf-8", "replace")
