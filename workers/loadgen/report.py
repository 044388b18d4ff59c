"""Puts together what a stage leaves behind: the summary's keys and the two files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from workers.loadgen.gaps import Counted
from workers.loadgen.log import write_log
from workers.loadgen.plan import Calibration, OpenLoad, Plan
from workers.loadgen.summary import Window, measured_summary
from workers.loadgen.transport import Receiving


class PartFacts(msgspec.Struct, frozen=True):
    """What one process knows beside its requests.

    `learned_from`: requests behind its calibration; `gaps`: between output events, of each class.
    """

    window: Window
    ended_s: float
    cancelled: bool
    cpu_share: float | None
    lags_ns: list[int]
    calibration: Calibration | None
    learned_from: int
    capped: int
    transport: str
    receiving: Receiving | None
    gaps: list[Counted | None]


def write_stage(
    plan: Plan, table: pa.Table, parts: Sequence[PartFacts], started_at: datetime, directory: Path
) -> dict[str, Any]:
    """Writes `requests.arrow` and `summary.json`; the summary."""
    window = Window(parts[0].window.start_ns, max(part.window.end_ns for part in parts))
    summary = stage_summary(plan, table, parts, window, started_at)
    metadata = {
        "brimline.started_at": summary["started_at"],
        "brimline.seed": str(plan.seed),
        "brimline.processes": str(plan.processes),
        "brimline.window_start_ns": str(window.start_ns),
        "brimline.window_end_ns": str(window.end_ns),
    }
    write_log(table, directory / "requests.arrow", plan.keep_itl, metadata)
    (directory / "summary.json").write_bytes(msgspec.json.format(msgspec.json.encode(summary)))
    return summary


def stage_summary(
    plan: Plan, table: pa.Table, parts: Sequence[PartFacts], window: Window, started_at: datetime
) -> dict[str, Any]:
    names = [one.name for one in plan.mix.classes]
    gaps = [[one for one in counted if one is not None] for counted in zip(*(part.gaps for part in parts), strict=True)]
    best = max(parts, key=lambda part: part.learned_from)
    return {
        "started_at": started_at.isoformat(timespec="milliseconds"),
        "duration_s": max(part.ended_s for part in parts),
        "cancelled": any(part.cancelled for part in parts),
        **measured_summary(table, window, isinstance(plan.load, OpenLoad), names, gaps),
        "client": {
            "cpu_share": max((part.cpu_share for part in parts if part.cpu_share is not None), default=None),
            "lateness_ms": _lateness(table, parts),
            "kernel_stamps": all(part.receiving is not None and _is_stamped(part.receiving) for part in parts),
            "receive_delay_ms": receive_delay_ms([part.receiving for part in parts if part.receiving is not None]),
            "processes": len(parts),
            "resent": int(np.sum(table["resent"].to_numpy())),
            "capped": sum(part.capped for part in parts) if isinstance(plan.load, OpenLoad) else None,
        },
        "transport": parts[0].transport,
        "calibration": None
        if best.calibration is None
        else {**msgspec.structs.asdict(best.calibration), "requests": best.learned_from},
    }


def nothing_sent(summary: dict[str, Any]) -> bool:
    return not summary["requests"]["sent"] and not summary["cancelled"]


def _is_stamped(receiving: Receiving) -> bool:
    """The kernel may leave out the very first reads after stamps were asked for."""
    return receiving.unstamped <= 0.01 * sum(receiving.delays.values())


def receive_delay_ms(parts: Sequence[Receiving]) -> dict[str, float] | None:
    """How long after the kernel this client read what arrived: its own delay, which is in none of the times.

    To the middle of a step; null when the event loop stamped.
    """
    counts: Counter[int] = Counter()
    for part in parts:
        counts.update(part.delays)
    total = sum(counts.values())
    if not total:
        return None
    steps = sorted(counts)
    ends = np.cumsum([counts[step] for step in steps])
    longest_ms = max(part.longest_ns for part in parts) / 1e6
    found = (steps[int(np.searchsorted(ends, share * (total - 1), side="right"))] for share in (0.5, 0.99))
    p50, p99 = (min((step + 0.5) * parts[0].step_ns / 1e6, longest_ms) for step in found)
    return {"p50": p50, "p99": p99, "max": longest_ms}


def _lateness(table: pa.Table, parts: Sequence[PartFacts]) -> dict[str, float] | None:
    """Of the requests' own lateness and of the event loop's, sampled: either alone reports too little."""
    own = table["lateness_ns"].drop_null().to_numpy()
    late_ms = np.concatenate([own, *(np.array(part.lags_ns, np.int64) for part in parts)]) / 1e6
    if not len(late_ms):
        return None
    p50, p99 = np.percentile(late_ms, (50, 99))
    return {"p50": float(p50), "p99": float(p99), "max": float(late_ms.max())}
