from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.simulator.running import Simulator, simulator


@pytest.fixture(scope="session")
def fast() -> Iterator[Simulator]:
    """A healthy engine, twenty times as fast as real ones; shared, so count differences and not totals."""
    with simulator("--time-scale", "20") as running:
        yield running
