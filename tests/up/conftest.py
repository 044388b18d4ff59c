"""A folder that a server of another user can reach while it runs."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """In place of pytest's: that lies in a folder which every new pytest session closes to other users again, and root
    lends its PostgreSQL to another one."""
    with tempfile.TemporaryDirectory(prefix="brimline-tests-", ignore_cleanup_errors=True) as made:
        yield Path(made)
