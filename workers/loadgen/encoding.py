"""Undoes content codings (gzip, deflate) of a body that arrives in parts."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

_PART_MAX = 1 << 20


class EncodingError(Exception):
    """The body is not what its content-encoding says, or has a coding that was not asked for."""


class Inflater:
    """gzip of several members, zlib and bare deflate."""

    def __init__(self) -> None:
        self._inflate = zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)
        self._start = b""
        self._started = False

    @property
    def whole(self) -> bool:
        """Whether the body may end here."""
        return self._inflate.eof if self._started else not self._start

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Parts of at most 1 MiB. Raises EncodingError."""
        if not self._started:
            # Two bytes tell a zlib or gzip header from bare deflate.
            data = self._start = self._start + data
            if len(data) < 2:
                return
            self._started = True
            if data[:2] != b"\x1f\x8b" and (data[0] & 15 != 8 or int.from_bytes(data[:2], "big") % 31):
                self._inflate = zlib.decompressobj(wbits=-zlib.MAX_WBITS)
        part = b""
        while data or len(part) == _PART_MAX:
            if self._inflate.eof:
                self._inflate = zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)
            try:
                part = self._inflate.decompress(data, _PART_MAX)
            except zlib.error as error:
                raise EncodingError(f"its compression is broken ({error})") from None
            data = self._inflate.unconsumed_tail or self._inflate.unused_data
            if part:
                yield part


def inflater_for(content_encoding: bytes) -> Inflater | None:
    """Null when the body is not compressed. Raises EncodingError."""
    coding = content_encoding.strip().lower()
    if coding in (b"", b"identity"):
        return None
    if coding in (b"gzip", b"x-gzip", b"deflate"):
        return Inflater()
    raise EncodingError(f"its content-encoding {coding.decode('latin-1')!r} was not asked for")
