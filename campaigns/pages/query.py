"""Numbers in an address, which anyone may type."""

from __future__ import annotations

DIGITS_MAX = 18


def whole_number(text: str, default: int = 0) -> int:
    """`text` as a number of at least 0 that a database's id can hold, else `default`."""
    return int(text) if text.isdecimal() and len(text) <= DIGITS_MAX else default
