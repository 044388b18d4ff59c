"""Turns the rows of a benchmark into Markdown tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

OURS = "brimline"
ACCURATE_MS = 1.0
WORDS_MAX = 120
# Beyond this share of its core in other hands a client is late for no fault of its own.
OTHERS_MAX = 0.02


def markdown(rows: Sequence[dict[str, Any]]) -> str:
    lines: list[str] = []
    for case in dict.fromkeys(row["case"] for row in rows):
        lines += [
            f"**{case}**",
            "",
            "| client | CPU a token, µs | times ours | in flight | TTFT error, ms: p50 / p99 | ITL error p99, ms "
            "| memory, MB | start, s | others on its core |",
            "|---|---|---|---|---|---|---|---|---|",
            *(_line(row) for row in rows if row["case"] == case),
            "",
        ]
    held = ", ".join(f"{client} {most or 'none of the tested'}" for client, most in streams_held(rows).items())
    disturbed = sum(row.get("others_share", 0) > OTHERS_MAX for row in rows)
    if disturbed:
        lines += [f"**Not a quiet machine: {disturbed} rows were disturbed by other programs. Measure again.**", ""]
    return "\n".join([*lines, f"Streams on one core with TTFT right to {ACCURATE_MS:g} ms (p99): {held}."])


def streams_held(rows: Sequence[dict[str, Any]]) -> dict[str, int]:
    """The largest tested number of streams at which each client's TTFT is still right; 0: at none."""
    held: dict[str, int] = {}
    for row in rows:
        error = row.get("ttft_error_ms")
        if row.get("streams") and error:
            fits = row["streams"] if error["p99"] <= ACCURATE_MS else 0
            held[row["client"]] = max(held.get(row["client"], 0), fits)
    return held


def _line(row: dict[str, Any]) -> str:
    client = f"{row['client']} {row['version']}".strip()
    if "failed" in row:
        return f"| {client} | {' '.join(row['failed'].split())[:WORDS_MAX]} | | | | | | | |"
    ttft, itl = row["ttft_error_ms"], row["itl_error_ms"]
    # A flood has no times to be right about, and as many requests as it wants.
    paced = bool(row.get("streams"))
    cells = [
        client,
        _number(row["cpu_us_per_token"], 1),
        _number(row.get("times_ours"), 2),
        _number(row["in_flight"] if paced else None, 1),
        f"{ttft['p50']:.2f} / {ttft['p99']:.2f}" if paced and ttft else "–",
        _number(itl["p99"] if paced and itl else None, 2),
        _number(row["peak_mb"], 0),
        _number(row["startup_s"], 1),
        f"{row['others_share']:.0%}",
    ]
    return "| " + " | ".join(cells) + " |"


def _number(value: float | None, digits: int) -> str:
    return "–" if value is None else f"{value:.{digits}f}"
