"""The one error of `manage.py up`: what is wrong and what to do, for a person at a terminal."""

from __future__ import annotations

from pathlib import Path

TAIL_LINES = 15


class UpError(Exception):
    """Its text is printed as it is; the exit status is 1."""


def tail(log: Path, lines: int = TAIL_LINES) -> str:
    """The end of a log file, indented; empty when there is none."""
    try:
        text = log.read_text(errors="replace")
    except OSError:
        return ""
    return "".join(f"\n    {line}" for line in text.rstrip().splitlines()[-lines:])
