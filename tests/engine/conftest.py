from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.engine.llama import Engine, running, why_missing


@pytest.fixture(scope="session")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """One llama.cpp server for all of a worker's tests; skips, saying why, where it could not be built."""
    if (reason := why_missing()) is not None:
        pytest.skip(reason)
    with running(tmp_path_factory.mktemp("llama")) as engine:
        yield engine
