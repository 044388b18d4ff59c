"""What `manage.py up` prints: one line a step, with its seconds."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager


def line(text: str = "") -> None:
    print(text, flush=True)


@contextmanager
def step(text: str) -> Iterator[None]:
    """`✓ text  0.5 s` when the block is through; a person at a terminal sees `… text` meanwhile."""
    begun = time.monotonic()
    watched = sys.stdout.isatty()
    if watched:
        print(f"  … {text}", end="\r", flush=True)
    try:
        yield
    except BaseException:
        line(f"  ✗ {text}")
        raise
    line(f"  ✓ {text:<44}{time.monotonic() - begun:6.1f} s")
