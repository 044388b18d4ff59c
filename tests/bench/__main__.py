"""`python -m tests.bench`: this load generator beside others, on one server whose answers are known in advance."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.bench.agreement import agreement
from tests.bench.clients import ROOT, Case, Client, brimline, floor
from tests.bench.measuring import SERVER_CORE, lost, measure
from tests.bench.peers import NOT_INSTALLED, PACKAGES, PeerMissing, installed
from tests.bench.request_log import measure_request_log
from tests.bench.server import NoCompiler, compiled
from tests.bench.table import OURS, markdown, streams_held

OUT = ROOT / "var" / "bench"
QUIET = Case("quiet, 5 streams", 5, 15)
PACED = [Case(f"paced, {streams} streams", streams, 12) for streams in (50, 200, 500, 1000)]
FLOOD = Case("flood, 200 streams", 200, 12, batch=64)
CASES = {"quiet": [QUIET], "paced": PACED, "flood": [FLOOD]}
QUICK = [PACED[1], FLOOD]
QUICK_PEER = "guidellm"
FEW_CORES = "not measurable here: two processes and the server need three cores"


def main() -> int:
    options = _parser().parse_args()
    OUT.mkdir(parents=True, exist_ok=True)
    try:
        program = compiled(OUT)
    except NoCompiler as error:
        print(error, file=sys.stderr)
        return 2
    cores = os.cpu_count() or 1
    missing = [_failed("not installed", name, why) for name, why in NOT_INSTALLED.items()]
    peers = options.peers if options.peers is not None else [QUICK_PEER] if options.quick else list(PACKAGES)
    clients = [brimline(), floor(), *_installed(peers, missing)]
    if cores > 2:
        clients.insert(1, brimline(processes=2))
    if cores > 1:
        # Sampling must not take the clients' time.
        os.sched_setaffinity(0, {cores - 1 if cores > 3 else SERVER_CORE})
    cases = QUICK if options.quick else [case for name in options.only for case in CASES[name]]
    rows = _measured(cases, clients, program)
    result = {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {
            "cores": cores,
            "processor": _processor(),
            "system": platform.platform(),
            "python": platform.python_version(),
        },
        "rows": [*rows, *missing],
        "streams_a_core": streams_held(rows),
        "two_processes": "see its rows" if cores > 2 else FEW_CORES,
        "agreement": agreement([row for row in rows if row["case"] == QUIET.name]),
    }
    table = markdown([*rows, *missing])
    (OUT / "loadgen.json").write_text(json.dumps(result, indent=1))
    (OUT / "loadgen.md").write_text(table + "\n")
    log = measure_request_log(OUT / "work")
    (OUT / "request_log.json").write_text(json.dumps(log, indent=1))
    print(table)
    print(json.dumps({"agreement": result["agreement"], "request_log": log}, indent=1))
    return 0


def _measured(cases: list[Case], clients: list[Client], program: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    lost_at: dict[str, str] = {}
    for case in cases:
        for client in clients:
            print(f"{case.name}: {client.name}", file=sys.stderr)
            if not case.batch and client.name in lost_at:
                rows.append(_failed(case.name, client.name, f"not run: lost at {lost_at[client.name]}", client.version))
                continue
            row = measure(case, client, program, OUT / "work") | {"streams": 0 if case.batch else case.streams}
            if not case.batch and lost(row):
                lost_at[client.name] = case.name
            rows.append(row)
        among = [row for row in rows if row["case"] == case.name]
        ours = next((row.get("cpu_us_per_token") for row in among if row["client"] == OURS), None)
        for row in among:
            row["times_ours"] = row["cpu_us_per_token"] / ours if ours and row.get("cpu_us_per_token") else None
    return rows


def _installed(names: list[str], missing: list[dict[str, Any]]) -> list[Client]:
    found = []
    for name in names:
        try:
            found.append(installed(name, OUT))
        except PeerMissing as error:
            missing.append(_failed("not installed", name, str(error)))
    return found


def _failed(case: str, client: str, why: str, version: str = "") -> dict[str, Any]:
    return {"case": case, "client": client, "version": version, "failed": why}


def _processor() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.machine()


def _names(text: str) -> list[str]:
    return [name for name in text.split(",") if name]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help=f"two cases, and of the peers only {QUICK_PEER}")
    parser.add_argument(
        "--only", nargs="+", choices=list(CASES), default=list(CASES), help="some cases (not with --quick)"
    )
    parser.add_argument("--peers", type=_names, help=f"of {','.join(PACKAGES)}; empty for none")
    return parser


if __name__ == "__main__":
    sys.exit(main())
