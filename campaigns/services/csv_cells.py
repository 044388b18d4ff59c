"""Cells of CSV files that people open in a spreadsheet: text can never become a formula, numbers stay numbers."""

from __future__ import annotations

import math
from typing import Any

import orjson

# A spreadsheet reads a text that starts with one of these as a formula (OWASP, "CSV injection"), full-width forms too.
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")


def cell(value: Any) -> str | int | float:
    """`value` for the csv module: null and NaN are empty, lists and objects are JSON, dangerous text gets a quote."""
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case float():
            return "" if math.isnan(value) else value
        case int():
            return value
        case list() | dict():
            return orjson.dumps(value).decode()
        case _:
            text = str(value)
            return "'" + text if text.startswith(_FORMULA_STARTS) else text
