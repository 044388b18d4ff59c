"""Runs one client against the ground-truth server: what it cost, and how right it was."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

from tests.bench.clients import ROOT, Case, Client
from tests.bench.comparing import comparison, statistics
from tests.bench.peers import environment
from tests.bench.process_tree import TreeSampler
from tests.bench.server import TTFT_MS, Truth, TruthServer

# Left out at the beginning, when streams start and connect.
EDGE_S = 3.0
SERVER_CORE = 0
# A client that has lost its streams (median error of TTFT) does not find them again when there are more.
LOST_MS = 50.0
# For a client's start, its prompts, its end and its report.
OVERHEAD_MAX_S = 150.0
_WORDS_MAX = 300


def measure(case: Case, client: Client, program: Path, directory: Path) -> dict[str, Any]:
    """One row of the results; `failed` says why there is none."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    cores = range(SERVER_CORE + 1, SERVER_CORE + 1 + client.cores)
    pinned = (os.cpu_count() or 1) >= cores.stop
    server = TruthServer(program, SERVER_CORE if pinned else None, case.batch)
    with server, (directory / "output.txt").open("wb") as output:
        started_ns = time.monotonic_ns()
        process = subprocess.Popen(
            client.command(case, server.url, directory),
            cwd=ROOT,
            env=environment(),
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=(lambda: os.sched_setaffinity(0, cores)) if pinned else None,
        )
        sampler = TreeSampler(process.pid, cores if pinned else range(os.cpu_count() or 1))
        sampler.start()
        try:
            ended = f"exit code {process.wait(case.seconds + OVERHEAD_MAX_S)}"
        except subprocess.TimeoutExpired:
            ended = f"no end within {case.seconds + OVERHEAD_MAX_S:.0f} s"
        sampler.stop()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    row: dict[str, Any] = {"case": case.name, "client": client.name, "version": client.version}
    truth = server.truth()
    if process.returncode or not len(truth.received_ns):
        words = (directory / "output.txt").read_text(errors="replace").strip()[-_WORDS_MAX:]
        return row | {"failed": f"{ended}: {words}"}
    try:
        reported = client.read(directory)
    except (OSError, LookupError, ValueError, TypeError) as error:
        return row | {"failed": f"its results cannot be read: {error!r}"}
    first_ns, last_ns = float(truth.received_ns.min()), float(truth.received_ns.max())
    start_ns = first_ns + min(EDGE_S * 1e9, (last_ns - first_ns) / 4)
    return (
        row
        | {"startup_s": (first_ns - started_ns) / 1e9, "server_late_ms": statistics(truth.ttft_ms - TTFT_MS)}
        | _cost(truth, sampler, start_ns, last_ns)
        | comparison(truth, reported, start_ns)
    )


def lost(row: dict[str, Any]) -> bool:
    if "failed" in row:
        return True
    error = row["ttft_error_ms"]
    return error is None or error["p50"] > LOST_MS


def _cost(truth: Truth, sampler: TreeSampler, start_ns: float, end_ns: float) -> dict[str, Any]:
    tokens = truth.tokens_between(start_ns, end_ns)
    cpu_s, others_s = sampler.cpu_s_between(start_ns, end_ns)
    seconds = (end_ns - start_ns) / 1e9
    return {
        "requests": len(truth.received_ns),
        "in_flight": truth.in_flight(start_ns, end_ns),
        "tokens_per_s": tokens / seconds,
        "cpu_us_per_token": cpu_s / tokens * 1e6 if tokens else None,
        "cpu_share": cpu_s / seconds,
        # Of the client's cores, in the hands of other programs: a client is late then for no fault of its own.
        "others_share": others_s / seconds / len(sampler.cores),
        "peak_mb": sampler.peak_bytes / 1e6,
    }
