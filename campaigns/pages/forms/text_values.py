"""Small notations that people type: numbers, lists, `name: value` lines. Raises ValidationError in words."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from django.core.exceptions import ValidationError


def number(text: str, what: str) -> int | float:
    """A whole number as int, so that what is stored reads as it was typed."""
    try:
        value = float(text.strip())
    except ValueError:
        raise ValidationError(f"{what} must be a number, not “{text.strip()}”") from None
    if not math.isfinite(value):
        raise ValidationError(f"{what} must be a finite number")
    return int(value) if value.is_integer() and "." not in text and "e" not in text.lower() else value


def numbers(text: str, what: str) -> list[int | float]:
    """Numbers with commas or blanks between."""
    return [number(word, what) for word in text.replace(",", " ").split()]


def words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def pairs(text: str, separator: str) -> dict[str, str]:
    """One `name<separator>value` a line. The value of a line is never repeated: it may be a secret."""
    found: dict[str, str] = {}
    for place, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        name, sign, value = line.partition(separator)
        if not sign or not name.strip():
            raise ValidationError(f"Line {place} must be written as name{separator} value")
        if name.strip() in found:
            raise ValidationError(f"Line {place} repeats {name.strip()}")
        found[name.strip()] = value.strip()
    return found


def json_object(text: str) -> dict[str, Any]:
    if not text.strip():
        return {}
    try:
        value = json.loads(text)
    except ValueError as error:
        raise ValidationError(f'Must be a JSON object such as {{"temperature": 0}}: {error}') from None
    if not isinstance(value, dict):
        raise ValidationError('Must be a JSON object such as {"temperature": 0}')
    return value


def lines_of(values: Mapping[str, Any], separator: str) -> str:
    return "\n".join(
        f"{name}{separator} {value if isinstance(value, str) else json.dumps(value)}" for name, value in values.items()
    )


def plain(value: float | None) -> str:
    """A number as a person would type it: 300, not 300.0."""
    return "" if value is None else f"{value:.12g}"
