"""Turns the rows of a benchmark into Markdown tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

OURS = "brimline"
ACCURATE_MS = 1.0


def markdown(rows: Sequence[dict[str, Any]]) -> str:
    lines: list[str] = []
    for case in dict.fromkeys(row["case"] for row in rows):
        among = [row for row in rows if row["case"] == case]
        lines += [
            f"**{case}**",
            "",
            "| client | CPU a token, µs | times ours | TTFT error, ms: p50 / p99 | ITL error p99, ms | MB | start, s |",
            "|---|---|---|---|---|---|---|",
            *(_line(row, _ours(among)) for row in among),
            "",
        ]
    return "\n".join([*lines, streams_a_core(rows)])


def streams_a_core(rows: Sequence[dict[str, Any]]) -> str:
    """The largest tested number of streams at which each client's TTFT is still right."""
    held: dict[str, int] = {}
    for row in rows:
        error = row.get("ttft_error_ms")
        if row.get("streams") and error:
            fits = row["streams"] if error["p99"] <= ACCURATE_MS else 0
            held[row["client"]] = max(held.get(row["client"], 0), fits)
    words = ", ".join(f"{client} {most or 'none tested'}" for client, most in held.items())
    return f"Streams on one core with TTFT right to {ACCURATE_MS:g} ms (p99): {words}."


def _ours(rows: Sequence[dict[str, Any]]) -> float | None:
    return next((row.get("cpu_us_per_token") for row in rows if row["client"] == OURS), None)


def _line(row: dict[str, Any], ours: float | None) -> str:
    if "failed" in row:
        return f"| {row['client']} {row['version']} | failed: {' '.join(row['failed'].split())[:120]} | | | | | |"
    cost, ttft, itl = row["cpu_us_per_token"], row["ttft_error_ms"], row["itl_error_ms"]
    ratio = f"{cost / ours:.2f}" if cost and ours else "–"
    cells = [
        f"{row['client']} {row['version']}",
        "–" if cost is None else f"{cost:.1f}",
        ratio,
        "–" if ttft is None else f"{ttft['p50']:.2f} / {ttft['p99']:.2f}",
        "–" if itl is None else f"{itl['p99']:.2f}",
        f"{row['peak_mb']:.0f}",
        f"{row['startup_s']:.1f}",
    ]
    return "| " + " | ".join(cells) + " |"
