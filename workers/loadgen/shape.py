"""Learns the bytes around the text of a stream's plain events, to know the next one without parsing it.

A stream repeats one event whose text alone changes. Reading JSON anew for each costs more than all the rest of a token.
"""

from __future__ import annotations

from workers.loadgen.payload import Reading, read_payload

_FIELD = b"data: "
_END = b"\n\n"
_OTHER_TEXT = "other text"


# Texts that were looked at and need no unescaping. A vocabulary's tokens come again and again.
_plain_texts: set[bytes] = set()
_PLAIN_TEXTS_MAX = 65_536
_PLAIN_TEXT_BYTES_MAX = 64


class Shape:
    """`before` ends with the quote that opens the text, `after` begins with the one that closes it. `said`: the text is
    no thought.
    """

    __slots__ = ("_after", "_before", "_end", "_start", "said")

    def __init__(self, before: bytes, after: bytes, said: bool) -> None:
        self.said = said
        self._before = before
        self._after = after
        self._start = len(before)
        self._end = -len(after)

    def fits(self, data: bytes) -> bool:
        """Whether these bytes are exactly one event of that shape, with a text that needs no unescaping."""
        if data.startswith(self._before) and data.endswith(self._after):
            text = data[self._start : self._end]
            return text in _plain_texts or _is_plain(text)
        return False

    def text_in(self, data: bytes) -> str:
        """Of an event that fits."""
        return data[self._start : self._end].decode("utf-8", "replace")


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
    return Shape(_FIELD + before, after + _END, bool(said))


def _is_plain(text: bytes) -> bool:
    """One line of characters that stand for themselves, and not empty."""
    plain = bool(text) and not any(byte in text for byte in (b'"', b"\\", b"\n", b"\r"))
    if plain and len(text) <= _PLAIN_TEXT_BYTES_MAX and len(_plain_texts) < _PLAIN_TEXTS_MAX:
        _plain_texts.add(text)
    return plain
