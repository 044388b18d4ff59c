"""`python -m tests.bench`: this load generator beside others, on one server whose answers are known in advance."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from datetime import UTC, datetime
from typing import Any

from tests.bench.agreement import agreement
from tests.bench.clients import ROOT, Case, Client, brimline, floor
from tests.bench.measuring import measure
from tests.bench.peers import PACKAGES, PeerMissing, installed
from tests.bench.request_log import measure_request_log
from tests.bench.server import NoCompiler, compiled
from tests.bench.table import markdown

OUT = ROOT / "var" / "bench"
PACED = [Case(f"paced, {streams} streams", streams, 15) for streams in (50, 200, 500, 1000)]
FLOOD = [Case("flood, 200 streams", 200, 12, batch=64)]
QUIET = Case("quiet, 5 streams", 5, 15)


def main() -> int:
    options = _parser().parse_args()
    OUT.mkdir(parents=True, exist_ok=True)
    try:
        program = compiled(OUT)
    except NoCompiler as error:
        print(error, file=sys.stderr)
        return 2
    chosen = [PACED[1], FLOOD[0]] if options.quick else [QUIET, *PACED, *FLOOD]
    rows: list[dict[str, Any]] = []
    clients = [brimline(), floor(), *_peers(options.peers, rows)]
    if (os.cpu_count() or 1) > 2:
        clients.insert(1, brimline(processes=2))
    for case in chosen:
        for client in clients:
            print(f"{case.name}: {client.name}", file=sys.stderr)
            rows.append(measure(case, client, program, OUT / "work") | {"streams": 0 if case.batch else case.streams})
    result = {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {"cores": os.cpu_count(), "system": platform.platform(), "python": platform.python_version()},
        "note": _cores_note(),
        "rows": rows,
        "agreement": agreement([row for row in rows if row["case"] == QUIET.name]),
        "request_log": measure_request_log(OUT / "work"),
    }
    (OUT / "loadgen.json").write_text(json.dumps(result, indent=1))
    table = markdown([row for row in rows if "case" in row])
    (OUT / "loadgen.md").write_text(table + "\n")
    print(table)
    print(json.dumps({key: result[key] for key in ("agreement", "request_log", "note")}, indent=1))
    return 0


def _peers(names: list[str], rows: list[dict[str, Any]]) -> list[Client]:
    found = []
    for name in names:
        try:
            found.append(installed(name, OUT))
        except PeerMissing as error:
            rows.append({"case": "not installed", "client": name, "version": "", "failed": str(error)})
    return found


def _cores_note() -> str:
    cores = os.cpu_count() or 1
    if cores > 2:
        return "the server and the client have a core each; two processes share the client's"
    return "two cores: the server has one, every client the other; what two processes carry cannot be told here"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="two cases only")
    parser.add_argument("--peers", type=lambda text: [one for one in text.split(",") if one], default=list(PACKAGES))
    return parser


if __name__ == "__main__":
    sys.exit(main())
