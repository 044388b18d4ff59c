"""Runs one client against the ground-truth server and compares what it says with what the server did."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.bench.clients import ROOT, Case, Client, Floats, Reported
from tests.bench.peers import environment
from tests.bench.process_tree import TreeSampler
from tests.bench.server import ITL_MS, TTFT_MS, Truth, TruthServer

# Left out at both ends: all streams begin at once there, or end.
EDGE_S = 3.0
SERVER_CORE, CLIENT_CORE = 0, 1
OVERHEAD_MAX_S = 240.0


def measure(case: Case, client: Client, program: Path, directory: Path) -> dict[str, Any]:
    """One row of the results; `failed` says why there is none."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    pinned = (os.cpu_count() or 1) > 1
    server = TruthServer(program, directory / "truth.bin", SERVER_CORE if pinned else None, case.batch)
    with server, (directory / "output.txt").open("wb") as output:
        started_ns = time.monotonic_ns()
        process = subprocess.Popen(
            client.command(case, server.url, directory),
            cwd=ROOT,
            env=environment(),
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=(lambda: os.sched_setaffinity(0, {CLIENT_CORE})) if pinned else None,
        )
        sampler = TreeSampler(process.pid)
        sampler.start()
        try:
            code = process.wait(case.seconds + OVERHEAD_MAX_S)
        except subprocess.TimeoutExpired:
            code = None
            process.kill()
            process.wait()
        sampler.stop()
    row: dict[str, Any] = {"case": case.name, "client": client.name, "version": client.version}
    truth = server.truth()
    if code != 0 or not len(truth.received_ns):
        words = (directory / "output.txt").read_text(errors="replace").strip()[-300:]
        return row | {"failed": f"exit code {code}: {words}"}
    try:
        reported = client.read(directory)
    except (OSError, LookupError, ValueError) as error:
        return row | {"failed": f"its results cannot be read: {error}"}
    return row | _cost(truth, sampler, started_ns) | _errors(case, truth, reported)


def _cost(truth: Truth, sampler: TreeSampler, started_ns: int) -> dict[str, Any]:
    first_ns, last_ns = float(truth.received_ns.min()), float(truth.received_ns.max())
    edge_ns = min(EDGE_S * 1e9, (last_ns - first_ns) / 4)
    start_ns, end_ns = first_ns + edge_ns, last_ns
    tokens = truth.tokens_between(start_ns, end_ns)
    cpu_s = sampler.cpu_s_between(start_ns, end_ns)
    seconds = (end_ns - start_ns) / 1e9
    return {
        "requests": len(truth.received_ns),
        "tokens_per_s": tokens / seconds if seconds else None,
        "cpu_us_per_token": cpu_s / tokens * 1e6 if tokens else None,
        "cpu_share": cpu_s / seconds if seconds else None,
        "peak_mb": sampler.peak_bytes / 1e6,
        "startup_s": (first_ns - started_ns) / 1e9,
    }


def _errors(case: Case, truth: Truth, reported: Reported) -> dict[str, Any]:
    """Against the schedule, which a flood has not; `server_late_ms` is the server's own p99, which is in all of them."""
    settled = reported.began_s >= min(EDGE_S, case.seconds / 4)
    return {
        "ttft_ms": _statistics(reported.ttft_ms[settled]),
        "tpot_ms": _statistics(reported.pace_ms[settled]),
        "e2e_ms": _statistics(reported.e2e_ms[settled]),
        "ttft_error_ms": None if case.batch else _error(reported.ttft_ms[settled] - TTFT_MS),
        "itl_error_ms": None if case.batch or reported.gaps_ms is None else _error(reported.gaps_ms - ITL_MS),
        "server_late_ms": None if case.batch else truth.ttft_late_ms,
    }


def _error(values: Floats) -> dict[str, float] | None:
    return _shares(np.abs(values))


def _statistics(values: Floats) -> dict[str, float] | None:
    found = _shares(values)
    return None if found is None else found | {"mean": float(np.nanmean(values))}


def _shares(values: NDArray[np.float64]) -> dict[str, float] | None:
    known = values[~np.isnan(values)]
    if not len(known):
        return None
    p50, p99 = np.percentile(known, (50, 99))
    return {"p50": float(p50), "p99": float(p99), "max": float(known.max())}
