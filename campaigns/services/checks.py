"""Collects what is wrong with an input, field by field, so that a person hears everything at once."""

from __future__ import annotations

import json
import math
import re
import unicodedata
from typing import Any

from campaigns.services.errors import InvalidInput

NAME_MAX = 120
JSON_MAX_BYTES = 64_000
QUEUE = re.compile(r"[A-Za-z0-9._-]{1,120}")


class Problems:
    def __init__(self) -> None:
        self.fields: dict[str, list[str]] = {}

    def add(self, field: str, message: str) -> None:
        self.fields.setdefault(field, []).append(message)

    def stop(self) -> None:
        """Raises InvalidInput when anything was added."""
        if self.fields:
            words = "; ".join(f"{field} {message}" for field, messages in self.fields.items() for message in messages)
            raise self.invalid(words)

    def invalid(self, message: str) -> InvalidInput:
        return InvalidInput(message, self.fields)

    def text(self, field: str, value: str, longest: int = NAME_MAX, *, blank: bool = False) -> str:
        """`value` without the blanks around it; a problem when it is empty, too long or holds control characters."""
        value = value.strip()
        if not value and not blank:
            self.add(field, "must not be empty")
        if len(value) > longest:
            self.add(field, f"must have at most {longest} characters, not {len(value)}")
        if has_controls(value):
            self.add(field, "must not hold control characters (line breaks, tabs, …)")
        return value

    def paragraphs(self, field: str, value: str, longest: int) -> None:
        """A problem when `value`, which may hold line breaks, is too long or cannot be kept as text."""
        if len(value) > longest:
            self.add(field, f"must have at most {longest} characters, not {len(value)}")
        if has_controls(value.translate({ord(char): None for char in "\r\n\t"})):
            self.add(field, "must not hold control characters other than line breaks and tabs")

    def number(
        self, field: str, value: float, low: float, high: float, *, unit: str = "", above: bool = False
    ) -> float:
        """A problem unless `low` ≤ `value` ≤ `high` (`above`: `low` itself is too small)."""
        if not math.isfinite(value) or value > high or value < low or (above and value == low):
            bounds = f"above {low:g} and at most {high:g}" if above else f"from {low:g} to {high:g}"
            self.add(field, f"must be {bounds}{unit and ' ' + unit}, not {value:g}")
        return value

    def queue(self, field: str, value: str) -> str:
        value = value.strip()
        if value and not QUEUE.fullmatch(value):
            self.add(field, "must be a queue's name: letters, digits, dot, hyphen and underscore, at most 120 of them")
        return value

    def json(self, field: str, value: Any) -> None:
        """A problem when PostgreSQL could not keep `value` as JSON, or it is too long to be meant."""
        try:
            text = json.dumps(value, allow_nan=False, ensure_ascii=False)
            size = len(text.encode())
        except (TypeError, ValueError, RecursionError):
            self.add(field, "must be JSON of finite numbers and valid text")
            return
        if size > JSON_MAX_BYTES:
            self.add(field, f"must be at most {JSON_MAX_BYTES} bytes as JSON, not {size}")
        if "\\u0000" in text:
            self.add(field, "must not hold the character U+0000")


def has_controls(text: str) -> bool:
    """Control characters, lone surrogates and the marks that turn the direction of the text around them."""
    return any(unicodedata.category(char) in {"Cc", "Cs"} or char in "\u202a\u202b\u202c\u202d\u202e" for char in text)
