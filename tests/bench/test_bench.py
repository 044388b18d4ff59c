"""The benchmark runs: its server is what it says, and the smallest case gives numbers that can be true."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.bench.clients import Case, brimline, floor
from tests.bench.measuring import measure
from tests.bench.server import compiled
from tests.bench.table import markdown


@pytest.mark.skipif(shutil.which("cc") is None, reason="the benchmark's server needs a C compiler")
def test_the_smallest_case_is_measured(tmp_path: Path) -> None:
    program = compiled(tmp_path)
    case = Case("smallest", 5, 7)
    rows = [measure(case, client, program, tmp_path / "work") for client in (brimline(), floor())]
    for row in rows:
        assert "failed" not in row
        assert row["requests"] >= 5
        assert row["cpu_us_per_token"] > 0
        assert row["ttft_ms"]["p50"] >= 100
        assert row["tpot_ms"]["p50"] > 10
    assert rows[0]["itl_error_ms"]["p50"] >= 0
    assert "| brimline this tree |" in markdown(rows)
