"""What a request log of a million rows costs in time, memory and disk; in a process of its own, for its own peak."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.bench.clients import ROOT
from workers.loadgen.answer import Answer, Outcome
from workers.loadgen.deal import Dealt
from workers.loadgen.log import write_log
from workers.loadgen.prompts import Prepared
from workers.loadgen.records import Records
from workers.loadgen.summary import Window, measured_summary

ROWS = 1_000_000
TOKENS = 10
WINDOW = Window(0, 10**13)


def measure_request_log(directory: Path) -> dict[str, Any]:
    directory.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "tests.bench.request_log", str(directory / "million.arrow")]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if ran.returncode:
        return {"failed": ran.stderr[-300:]}
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


def main(path: Path) -> None:
    chance = random.Random(1)
    records = Records(["short", "medium", "long"], 0, (WINDOW.start_ns, WINDOW.end_ns), keep_itl=False)
    due_ns = 1
    recording_s = 0.0
    for number in range(ROWS):
        due_ns += chance.randrange(2_000_000)
        prepared, answer = _request(number, due_ns, chance)
        before_s = time.perf_counter()
        records.add(prepared, answer, attempt=1, measured=True, t_due_ns=due_ns, lateness_ns=50_000, error=None)
        recording_s += time.perf_counter() - before_s
    gaps = [[one] for one in records.gaps() if one is not None]
    table = records.table()
    measured_summary(table, WINDOW, False, ["short", "medium", "long"], gaps)
    write_log(table, path, False, {})
    found = {
        "rows": ROWS,
        "us_a_row": recording_s / ROWS * 1e6,
        "peak_mb": _peak_mb(),
        "disk_mb": path.stat().st_size / 1e6,
    }
    print(json.dumps(found))


def _peak_mb() -> float:
    """Of this program alone: getrusage also counts the process that it was before exec."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def _request(number: int, due_ns: int, chance: random.Random) -> tuple[Prepared, Answer]:
    answer = Answer()
    answer.sent(due_ns + 50_000 + chance.randrange(30_000))
    first_ns = due_ns + 100_000_000 + chance.randrange(100_000_000)
    answer.http_status, answer.t_headers_ns = 200, first_ns - chance.randrange(1_000_000)
    for token in range(TOKENS):
        answer.arrivals_ns.append(first_ns + token * 20_000_000 + chance.randrange(1_000_000))
    answer.t_answer_ns = answer.arrivals_ns[0]
    answer.completion_tokens, answer.prompt_tokens = TOKENS, chance.randrange(40, 60)
    answer.finish_reason, answer.outcome = "length", Outcome.OK
    answer.t_end_ns = answer.arrivals_ns[-1] + chance.randrange(100_000)
    name = f"3f9ac2d1{number:08x}"
    return Prepared(Dealt(number % 3, number, 50, TOKENS), name, b"", 1, 50, TOKENS), answer


if __name__ == "__main__":
    main(Path(sys.argv[1]))
