"""How each load generator is called for a case, and how its own result files are read."""

from __future__ import annotations

import json
import sqlite3
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Floats = NDArray[np.float64]
OUTPUT_TOKENS = 100
INPUT_TOKENS = 32
CYCLE_S = 2.1
HERE = Path(__file__).parent
ROOT = HERE.parents[1]


@dataclass(frozen=True, slots=True)
class Case:
    """`batch`: a flood, the server sends so many tokens at once; 0: it keeps its schedule."""

    name: str
    streams: int
    seconds: float
    batch: int = 0


@dataclass(frozen=True, slots=True)
class Reported:
    """What a client says, per request: when it began (s, from its first), TTFT, end-to-end; and gaps between tokens.

    `gaps_ms` is null where a client reports no single gaps; then `pace_ms` is its mean gap of each request.
    """

    began_s: Floats
    ttft_ms: Floats
    e2e_ms: Floats
    pace_ms: Floats
    gaps_ms: Floats | None


@dataclass(frozen=True, slots=True)
class Client:
    name: str
    version: str
    command: Callable[[Case, str, Path], list[str]]
    read: Callable[[Path], Reported]


def brimline(processes: int = 1) -> Client:
    def command(case: Case, url: str, directory: Path) -> list[str]:
        warmup_s = min(3.0, case.seconds / 3)
        plan = {
            "base_url": f"{url}/v1",
            "model": "m",
            "load": {"kind": "closed", "concurrency": case.streams},
            "warmup_s": warmup_s,
            "measure_s": case.seconds - warmup_s,
            "drain_s": 10,
            "processes": processes,
            "mix": {"classes": [{"name": "a", "input_tokens": INPUT_TOKENS, "output_tokens": OUTPUT_TOKENS}]},
            # A flood has a hundred times the gaps, and no schedule to compare them with.
            "keep_itl": not case.batch,
        }
        (directory / "plan.json").write_text(json.dumps(plan))
        return [sys.executable, "-m", "workers.loadgen", str(directory / "plan.json"), "--out", str(directory)]

    name = "brimline" if processes == 1 else f"brimline, {processes} processes"
    return Client(name, "this tree", command, read_brimline)


def read_brimline(directory: Path) -> Reported:
    with pa.memory_map(str(directory / "requests.arrow")) as source:
        table = pa.ipc.open_file(source).read_all()
    columns = {name: table[name].to_numpy() for name in table.column_names if name.startswith("t_")}
    ok = np.asarray(table["outcome"].cast(pa.string()).to_numpy()) == "ok"
    sent, first, last, end = (columns[name] for name in ("t_sent_ns", "t_first_ns", "t_last_ns", "t_end_ns"))
    gaps = table["itl_ns"].filter(pa.array(ok)).combine_chunks().flatten() if "itl_ns" in table.column_names else None
    tokens = table["output_tokens"].to_numpy()
    return Reported(
        began_s=(sent - np.nanmin(sent))[ok] / 1e9,
        ttft_ms=(first - sent)[ok] / 1e6,
        e2e_ms=(end - sent)[ok] / 1e6,
        pace_ms=((last - first) / (tokens - 1))[ok] / 1e6,
        gaps_ms=None if gaps is None else gaps.to_numpy() / 1e6,
    )


def floor() -> Client:
    def command(case: Case, url: str, directory: Path) -> list[str]:
        program = str(HERE / "floor.py")
        return [sys.executable, program, url, str(case.streams), str(case.seconds), str(directory / "floor.json")]

    return Client("bare httptools", "tests/bench/floor.py", command, read_floor)


def read_floor(directory: Path) -> Reported:
    rows = [row for row in json.loads((directory / "floor.json").read_bytes()) if row[1]]
    sent = np.array([row[0] for row in rows], float)
    first, last = (np.array([row[1][place] for row in rows], float) for place in (0, -1))
    return Reported(
        began_s=(sent - sent.min()) / 1e9,
        ttft_ms=(first - sent) / 1e6,
        e2e_ms=(last - sent) / 1e6,
        pace_ms=(last - first) / (OUTPUT_TOKENS - 1) / 1e6,
        gaps_ms=np.concatenate([np.diff(row[1]) for row in rows]) / 1e6,
    )


def guidellm(python: Path, version: str, tokenizer: Path) -> Client:
    def command(case: Case, url: str, directory: Path) -> list[str]:
        return [
            str(python.with_name("guidellm")),
            "run",
            *("--backend", f"kind=openai_http,target={url},model=m"),
            *("--profile", f"kind=concurrent,streams={case.streams}"),
            *("--constraint", f"kind=max_duration,seconds={case.seconds:g}"),
            *("--tokenizer", f"kind=huggingface_auto,model={tokenizer}"),
            *("--data", f"kind=synthetic_text,prompt_tokens={INPUT_TOKENS},output_tokens={OUTPUT_TOKENS}"),
            *("--output", f"kind=json,path={directory / 'guidellm.json'}"),
            "--disable-console",
        ]

    return Client("guidellm", version, command, read_guidellm)


def read_guidellm(directory: Path) -> Reported:
    document = json.loads((directory / "guidellm.json").read_bytes())
    times = [one["info"]["timings"] for one in document["benchmarks"][0]["requests"]["successful"]]

    def column(name: str) -> Floats:
        return np.array([time[name] for time in times], float)

    began, first, last = column("request_start"), column("first_token_iteration"), column("last_token_iteration")
    return Reported(
        began_s=began - began.min(),
        ttft_ms=(first - began) * 1e3,
        e2e_ms=(column("request_end") - began) * 1e3,
        pace_ms=(last - first) / (OUTPUT_TOKENS - 1) * 1e3,
        gaps_ms=None,
    )


def aiperf(python: Path, version: str, tokenizer: Path) -> Client:
    def command(case: Case, url: str, directory: Path) -> list[str]:
        return [
            *(str(python.with_name("aiperf")), "profile", "--model", "m", "--url", url),
            *("--endpoint-type", "chat", "--streaming", "--use-legacy-max-tokens", "--use-server-token-count"),
            *("--concurrency", str(case.streams)),
            *("--request-count", str(case.streams * max(2, round(case.seconds / CYCLE_S)))),
            *("--tokenizer", str(tokenizer)),
            *("--prompt-input-tokens-mean", str(INPUT_TOKENS), "--prompt-output-tokens-mean", str(OUTPUT_TOKENS)),
            *("--output-artifact-dir", str(directory / "aiperf"), "--export-level", "records"),
            *("--ui-type", "none", "--no-server-metrics", "--no-gpu-telemetry"),
        ]

    return Client("aiperf", version, command, read_aiperf)


def read_aiperf(directory: Path) -> Reported:
    lines = (directory / "aiperf" / "profile_export.jsonl").read_bytes().splitlines()
    rows: list[dict[str, Any]] = [row for row in map(json.loads, lines) if not row.get("error")]

    def metric(name: str) -> Floats:
        return np.array([row["metrics"][name]["value"] for row in rows], float)

    began = np.array([row["metadata"]["request_start_ns"] for row in rows], float)
    return Reported(
        began_s=(began - began.min()) / 1e9,
        ttft_ms=metric("time_to_first_token"),
        e2e_ms=metric("request_latency"),
        pace_ms=metric("inter_token_latency"),
        gaps_ms=np.concatenate([row["metrics"]["inter_chunk_latency"]["value"] for row in rows]),
    )


def evalscope(python: Path, version: str, tokenizer: Path) -> Client:
    def command(case: Case, url: str, directory: Path) -> list[str]:
        return [
            *(str(python.with_name("evalscope")), "perf", "--url", f"{url}/v1/chat/completions", "--model", "m"),
            *("--api", "openai", "--dataset", "random", "--tokenizer-path", str(tokenizer)),
            *("--parallel", str(case.streams)),
            *("--number", str(case.streams * max(2, round(case.seconds / CYCLE_S)))),
            *("--min-prompt-length", str(INPUT_TOKENS), "--max-prompt-length", str(INPUT_TOKENS)),
            *("--min-tokens", str(OUTPUT_TOKENS), "--max-tokens", str(OUTPUT_TOKENS)),
            *("--stream", "--outputs-dir", str(directory / "evalscope")),
        ]

    return Client("evalscope", version, command, read_evalscope)


def read_evalscope(directory: Path) -> Reported:
    (database,) = (directory / "evalscope").rglob("*.db")
    columns = "start_time, first_chunk_latency, latency, time_per_output_token, inter_token_latencies"
    with sqlite3.connect(database) as connection:
        rows = connection.execute(f"SELECT {columns} FROM result WHERE success = 1").fetchall()
    began, first, latency, pace = np.array([row[:4] for row in rows], float).T
    return Reported(
        began_s=began - began.min(),
        ttft_ms=first * 1e3,
        e2e_ms=latency * 1e3,
        pace_ms=pace * 1e3,
        gaps_ms=np.concatenate([json.loads(row[4]) for row in rows]) * 1e3,
    )
