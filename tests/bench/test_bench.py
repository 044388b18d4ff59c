"""The benchmark runs: its server does what it says, and client and server are compared request by request."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.bench.clients import Case, Reported, brimline, floor
from tests.bench.comparing import comparison
from tests.bench.measuring import measure
from tests.bench.server import TTFT_MS, Truth, compiled
from tests.bench.table import markdown

MS = 1_000_000
needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="the benchmark's server needs a C compiler")


@needs_compiler
def test_the_smallest_case_is_measured(tmp_path: Path) -> None:
    program = compiled(tmp_path)
    rows = [
        measure(Case("smallest", 5, 1, tokens=10), client, program, tmp_path / "work")
        for client in (brimline(), floor())
    ]
    for row in rows:
        assert "failed" not in row
        assert row["requests"] >= 5
        assert row["unmatched"] == 0
        # The server never sends before the time; how late it is depends on the machine.
        assert row["server"]["ttft_ms"]["p50"] >= TTFT_MS
        assert row["ttft_ms"]["p50"] >= TTFT_MS
        assert row["itl_error_ms"]["p50"] >= 0
    assert "| brimline this tree |" in markdown(rows)


@needs_compiler
def test_a_flood_is_counted(tmp_path: Path) -> None:
    case = Case("flood", 2, 1, batch=64)
    row = measure(case, floor(), compiled(tmp_path), tmp_path / "work")
    assert "failed" not in row
    assert row["requests"] > case.streams


@needs_compiler
def test_a_client_that_ends_badly_is_reported(tmp_path: Path) -> None:
    row = measure(Case("no stream", 0, 1), brimline(), compiled(tmp_path), tmp_path / "work")
    assert "concurrency" in row["failed"]
    assert "must be a whole number" in markdown([row])


def test_an_error_is_the_difference_from_the_same_request_of_the_server() -> None:
    truth = Truth(["a", "b"], np.array([0, 10 * MS]), [np.array([5, 7, 9]) * MS, np.array([20, 21, 25]) * MS])
    said = Reported(
        keys=["b", "a", "unknown"],
        ttft_ms=np.array([11.0, 5.5, 1.0]),
        e2e_ms=np.array([16.0, 10.0, 1.0]),
        tpot_ms=np.array([2.5, 2.0, 1.0]),
        gaps_ms=[np.array([2.0, 4.0]), np.array([0.0, 4.0]), np.array([1.0, 1.0])],
    )
    found = comparison(truth, said, start_ns=0)
    assert found["unmatched"] == 1
    assert found["ttft_error_ms"]["max"] == 1.0
    assert found["ttft_error_ms"]["mean"] == 0.75
    assert found["tpot_error_ms"]["max"] == 0.0
    assert found["itl_error_ms"]["max"] == 2.0
    assert found["itl_error_ms"]["mean"] == 1.25
    # What came before the start takes no part.
    assert comparison(truth, said, start_ns=1 * MS)["ttft_error_ms"]["mean"] == 1.0


def test_a_machine_with_other_work_is_called_that() -> None:
    quiet = {"case": "a", "client": "b", "version": "", "others_share": 0.0, "cpu_us_per_token": 1.0, "in_flight": 1.0}
    quiet |= {"ttft_error_ms": None, "itl_error_ms": None, "peak_mb": 1.0, "startup_s": 1.0}
    assert "Not a quiet machine" not in markdown([quiet])
    assert "Not a quiet machine: 1 rows" in markdown([quiet, quiet | {"others_share": 0.5}])


def test_requests_in_flight_are_counted_by_time() -> None:
    truth = Truth(["", ""], np.array([0, 5]), [np.array([5, 10]), np.array([8, 0])])
    # One whole, the other from the middle on, as it never ended.
    assert truth.in_flight(0, 10) == 1.5
    assert truth.tokens_between(5, 10) == 2
