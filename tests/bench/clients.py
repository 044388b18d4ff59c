"""How each load generator is called for a case, and how its own result files are read."""

from __future__ import annotations

import base64
import json
import re
import sqlite3
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tests.bench.server import ITL_MS, TTFT_MS
from workers.loadgen.log import read_log

Floats = NDArray[np.float64]
INPUT_TOKENS = 32
FLOOD_ROUNDS = 40
HERE = Path(__file__).parent
ROOT = HERE.parents[1]


@dataclass(frozen=True, slots=True)
class Case:
    """`batch`: a flood, the server sends so many tokens at once; 0: it keeps its schedule. `tokens`: of each answer."""

    name: str
    streams: int
    seconds: float
    batch: int = 0
    tokens: int = 100

    @property
    def requests(self) -> int:
        """That fill the time on schedule, for clients that count; a flood has more in the same time."""
        cycle_s = (TTFT_MS + ITL_MS * self.tokens) / 1000
        rounds = FLOOD_ROUNDS if self.batch else max(2, round(self.seconds / cycle_s))
        return self.streams * rounds


@dataclass(frozen=True, slots=True)
class Reported:
    """What a client says of each request that ended well. `gaps_ms`: between its tokens; null where none are reported.

    `keys` tell which request of the server it was: its X-Request-Id, or its place among all that came.
    `notes`: what only this client says of its run.
    """

    keys: Sequence[str] | Sequence[int]
    ttft_ms: Floats
    e2e_ms: Floats
    tpot_ms: Floats
    gaps_ms: list[Floats] | None = None
    notes: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Client:
    """`read` raises OSError, LookupError, TypeError or ValueError when the results are not what they should be."""

    name: str
    version: str
    command: Callable[[Case, str, Path], list[str]]
    read: Callable[[Path], Reported]
    cores: int = 1


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
            "mix": {"classes": [{"name": "a", "input_tokens": INPUT_TOKENS, "output_tokens": case.tokens}]},
            # A flood has a hundred times the gaps, and no schedule to compare them with.
            "keep_itl": not case.batch,
        }
        (directory / "plan.json").write_text(json.dumps(plan))
        return [sys.executable, "-m", "workers.loadgen", str(directory / "plan.json"), "--out", str(directory)]

    name = "brimline" if processes == 1 else f"brimline, {processes} processes"
    return Client(name, "this tree", command, read_brimline, processes)


def read_brimline(directory: Path) -> Reported:
    table = read_log(directory / "requests.arrow")
    table = table.filter(pc.equal(table["outcome"].cast(pa.string()), "ok"))
    sent, first, last, end, tokens = (
        table[name].to_numpy() for name in ("t_sent_ns", "t_first_ns", "t_last_ns", "t_end_ns", "output_tokens")
    )
    gaps = table["itl_ns"].to_numpy() / 1e6 if "itl_ns" in table.column_names else None
    client = json.loads((directory / "summary.json").read_bytes())["client"]
    return Reported(
        keys=table["request_id"].to_pylist(),
        ttft_ms=(first - sent) / 1e6,
        e2e_ms=(end - sent) / 1e6,
        tpot_ms=(last - first) / (tokens - 1) / 1e6,
        gaps_ms=None if gaps is None else list(gaps),
        notes={key: client[key] for key in ("cpu_share", "lateness_ms", "kernel_stamps", "receive_delay_ms")},
    )


def floor() -> Client:
    def command(case: Case, url: str, directory: Path) -> list[str]:
        program = str(HERE / "floor.py")
        return [
            sys.executable,
            program,
            url,
            str(case.streams),
            str(case.seconds),
            str(case.tokens),
            str(directory / "floor.bin"),
        ]

    return Client("bare httptools", "tests/bench/floor.py", command, read_floor)


def read_floor(directory: Path) -> Reported:
    words = np.fromfile(directory / "floor.bin", np.int64)
    keys, sent, times = [], [], []
    place = 0
    while place < len(words):
        number, sent_ns, count = words[place : place + 3]
        place += 3 + int(count)
        keys.append(str(number))
        sent.append(sent_ns)
        times.append(words[place - int(count) : place])
    first, last = (np.array([one[end] for one in times]) for end in (0, -1))
    return Reported(
        keys=keys,
        ttft_ms=(first - sent) / 1e6,
        e2e_ms=(last - sent) / 1e6,
        tpot_ms=(last - first) / np.array([len(one) - 1 for one in times]) / 1e6,
        gaps_ms=[np.diff(one) / 1e6 for one in times],
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
            *("--data", f"kind=synthetic_text,prompt_tokens={INPUT_TOKENS},output_tokens={case.tokens}"),
            *("--output", f"kind=json,path={directory / 'guidellm.json'}"),
            "--disable-console",
        ]

    return Client("guidellm", version, command, read_guidellm)


def read_guidellm(directory: Path) -> Reported:
    document = json.loads((directory / "guidellm.json").read_bytes())
    rows = document["benchmarks"][0]["requests"]["successful"]
    metrics = document["benchmarks"][0]["metrics"]
    published = {
        name: {"p50": metrics[name]["successful"]["median"], "mean": metrics[name]["successful"]["mean"]}
        for name in ("time_to_first_token_ms", "time_per_output_token_ms", "inter_token_latency_ms")
    }

    def column(name: str) -> Floats:
        return np.array([row["info"]["timings"][name] for row in rows], float)

    began, first, last = column("request_start"), column("first_token_iteration"), column("last_token_iteration")
    return Reported(
        keys=[int(row["response_id"].removeprefix("chatcmpl-"), 16) for row in rows],
        ttft_ms=(first - began) * 1e3,
        e2e_ms=(column("request_end") - began) * 1e3,
        tpot_ms=(last - first) / np.array([row["output_tokens"] - 1 for row in rows]) * 1e3,
        notes={"published": published},
    )


def aiperf(python: Path, version: str, tokenizer: Path) -> Client:
    def command(case: Case, url: str, directory: Path) -> list[str]:
        return [
            *(str(python.with_name("aiperf")), "profile", "--model", "m", "--url", url),
            *("--endpoint-type", "chat", "--streaming", "--use-legacy-max-tokens", "--use-server-token-count"),
            *("--concurrency", str(case.streams)),
            *("--request-count", str(case.requests)),
            *("--tokenizer", str(tokenizer)),
            *("--prompt-input-tokens-mean", str(INPUT_TOKENS), "--prompt-output-tokens-mean", str(case.tokens)),
            *("--output-artifact-dir", str(directory / "aiperf"), "--export-level", "records"),
            *("--ui-type", "none", "--no-server-metrics", "--no-gpu-telemetry"),
        ]

    return Client("aiperf", version, command, read_aiperf)


def read_aiperf(directory: Path) -> Reported:
    lines = (directory / "aiperf" / "profile_export.jsonl").read_bytes().splitlines()
    rows: list[dict[str, Any]] = [row for row in map(json.loads, lines) if not row.get("error")]

    def metric(name: str) -> Floats:
        return np.array([row["metrics"][name]["value"] for row in rows], float)

    summary = json.loads((directory / "aiperf" / "profile_export_aiperf.json").read_bytes())
    published = {
        name: {"p50": summary[name]["p50"], "mean": summary[name]["avg"]}
        for name in ("time_to_first_token", "inter_token_latency", "inter_chunk_latency", "request_latency")
    }
    return Reported(
        keys=[row["metadata"]["x_request_id"] for row in rows],
        ttft_ms=metric("time_to_first_token"),
        e2e_ms=metric("request_latency"),
        tpot_ms=metric("inter_token_latency"),
        gaps_ms=[np.array(row["metrics"]["inter_chunk_latency"]["value"]) for row in rows],
        notes={"published": published},
    )


def evalscope(python: Path, version: str, tokenizer: Path) -> Client:
    def command(case: Case, url: str, directory: Path) -> list[str]:
        return [
            *(str(python.with_name("evalscope")), "perf", "--url", f"{url}/v1/chat/completions", "--model", "m"),
            *("--api", "openai", "--dataset", "random", "--tokenizer-path", str(tokenizer)),
            *("--parallel", str(case.streams)),
            *("--number", str(case.requests)),
            *("--min-prompt-length", str(INPUT_TOKENS), "--max-prompt-length", str(INPUT_TOKENS)),
            *("--min-tokens", str(case.tokens), "--max-tokens", str(case.tokens)),
            *("--stream", "--outputs-dir", str(directory / "evalscope")),
        ]

    return Client("evalscope", version, command, read_evalscope)


def read_evalscope(directory: Path) -> Reported:
    (database,) = (directory / "evalscope").rglob("*.db")
    columns = "first_chunk_latency, latency, time_per_output_token, inter_token_latencies, response_messages"
    with sqlite3.connect(database) as connection:
        rows = connection.execute(f"SELECT {columns} FROM result WHERE success = 1").fetchall()
    first, latency, pace = np.array([row[:3] for row in rows], float).T
    return Reported(
        keys=[_place_in_pickle(row[4]) for row in rows],
        ttft_ms=first * 1e3,
        e2e_ms=latency * 1e3,
        tpot_ms=pace * 1e3,
        gaps_ms=[np.array(json.loads(row[3])) * 1e3 for row in rows],
    )


def _place_in_pickle(messages: str) -> int:
    """The server's number of a request; found in the pickled answer, which is not loaded."""
    found = re.search(rb"chatcmpl-([0-9a-f]{16})", base64.b64decode(messages))
    if found is None:
        raise ValueError("an answer without the server's id")
    return int(found[1], 16)
