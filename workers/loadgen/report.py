"""Puts together what a stage leaves behind: the summary's keys and the two files."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from workers.loadgen.log import write_log
from workers.loadgen.plan import Calibration, OpenLoad, Plan
from workers.loadgen.summary import Window, measured_summary


class PartFacts(msgspec.Struct, frozen=True):
    """What one process knows beside its requests. `learned_from`: requests behind its calibration."""

    window: Window
    ended_s: float
    cancelled: bool
    cpu_share: float | None
    lags_ns: list[int]
    calibration: Calibration | None
    learned_from: int
    capped: int
    transport: str


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
    best = max(parts, key=lambda part: part.learned_from)
    return {
        "started_at": started_at.isoformat(timespec="milliseconds"),
        "duration_s": max(part.ended_s for part in parts),
        "cancelled": any(part.cancelled for part in parts),
        **measured_summary(table, window, isinstance(plan.load, OpenLoad), names),
        "client": {
            "cpu_share": max((part.cpu_share for part in parts if part.cpu_share is not None), default=None),
            "lateness_ms": _lateness(table, parts),
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


def _lateness(table: pa.Table, parts: Sequence[PartFacts]) -> dict[str, float] | None:
    """Of the requests' own lateness and of the event loop's, sampled: either alone reports too little."""
    own = table["lateness_ns"].drop_null().to_numpy()
    late_ms = np.concatenate([own, *(np.array(part.lags_ns, np.int64) for part in parts)]) / 1e6
    if not len(late_ms):
        return None
    p50, p99 = np.percentile(late_ms, (50, 99))
    return {"p50": float(p50), "p99": float(p99), "max": float(late_ms.max())}
