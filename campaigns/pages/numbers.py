"""Numbers as text: three significant digits, and thousands apart, so that a column of them can be compared by eye."""

from __future__ import annotations

import math

from campaigns.services.estimate import duration_words

__all__ = ["duration_words", "significant"]


def significant(value: float, digits: int = 3) -> str:
    """12345.6 → "12,346", 123.4 → "123", 1.2345 → "1.23", 0.01234 → "0.0123"."""
    if not math.isfinite(value):
        return "∞" if value > 0 else "−∞" if value < 0 else "—"
    if value == 0:
        return "0"
    places = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    text = f"{value:,.{min(places, 9)}f}"
    return text.rstrip("0").rstrip(".") if "." in text and float(value).is_integer() else text
