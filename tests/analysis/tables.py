"""Synthetic stages whose truth is known in closed form: a closed loop of C slots over given latencies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from campaigns.analysis.load_line import MeasuredStage
from campaigns.analysis.requests import RequestTable
from campaigns.analysis.validity import StageInput, StageKind


@dataclass(frozen=True)
class Kind:
    """A traffic class: latencies at concurrency 1."""

    name: str
    weight: int
    ttft_ms: float
    tpot_ms: float
    input_tokens: int
    output_tokens: int


MIX = (
    Kind("short", 3, 50.0, 10.0, 50, 20),
    Kind("mid", 4, 100.0, 10.0, 500, 50),
    Kind("long", 3, 300.0, 12.0, 2000, 80),
)
WEIGHTS = {kind.name: float(kind.weight) for kind in MIX}


def columns(
    *,
    concurrency: int = 1,
    n: int = 400,
    ttft: float = 1.0,
    tpot: float = 1.0,
    noise: float = 0.03,
    seed: int = 1,
    mix: Sequence[Kind] = MIX,
) -> dict[str, Any]:
    """Columns of `n` requests whose TTFT and TPOT are `ttft` and `tpot` times those at concurrency 1, with log-normal
    noise. Every slot sends its next request at once; those sent before the first slot runs dry are measured."""
    rng = np.random.default_rng([seed, concurrency])
    deck = [kind for kind in mix for _ in range(kind.weight)]
    dealt: list[Kind] = []
    while len(dealt) < n:
        dealt += [deck[i] for i in rng.permutation(len(deck))]
    dealt = dealt[:n]
    ttft_ms = np.array([kind.ttft_ms for kind in dealt]) * ttft * np.exp(rng.normal(0, noise, n))
    tpot_ms = np.array([kind.tpot_ms for kind in dealt]) * tpot * np.exp(rng.normal(0, noise, n))
    output_tokens = np.array([kind.output_tokens for kind in dealt], dtype=float)
    e2e_ms = ttft_ms + tpot_ms * (output_tokens - 1)
    free, sent_ms = np.zeros(concurrency), np.zeros(n)
    for i in range(n):
        slot = int(free.argmin())
        sent_ms[i] = free[slot]
        free[slot] += e2e_ms[i]
    sent_ns = sent_ms * 1e6
    return {
        "class": np.array([kind.name for kind in dealt]),
        "outcome": np.full(n, "ok", dtype=object),
        "measured": sent_ms < free.min(),
        "t_due_ns": sent_ns,
        "t_sent_ns": sent_ns,
        "t_first_ns": sent_ns + ttft_ms * 1e6,
        "t_last_ns": sent_ns + e2e_ms * 1e6,
        "t_end_ns": sent_ns + e2e_ms * 1e6,
        "input_tokens": np.array([kind.input_tokens for kind in dealt], dtype=float),
        "output_tokens": output_tokens,
        "token_source": np.full(n, "usage", dtype=object),
    }


def table(**options: Any) -> RequestTable:
    return RequestTable.from_columns(columns(**options))


def fail(cols: dict[str, Any], rows: Any, outcome: str) -> dict[str, Any]:
    """`cols` with `rows` (mask or slice) ended in `outcome`, without a first token."""
    changed = {name: np.array(values, copy=True) for name, values in cols.items()}
    changed["outcome"][rows] = outcome
    for name in ("t_first_ns", "t_last_ns"):
        changed[name][rows] = np.nan
    return changed


def stage_of(cols: Mapping[str, Any], concurrency: int, kind: StageKind = "ladder", **fields: Any) -> StageInput:
    """A stage over `cols`, its window from the first to the last measured sending."""
    requests = RequestTable.from_columns(cols)
    sent_ns = requests.t_sent_ns[requests.measured]
    window_s = float(sent_ns.max() - sent_ns.min()) / 1e9 if sent_ns.size else 1.0
    return StageInput(concurrency=concurrency, kind=kind, table=requests, window_s=max(window_s, 1e-3), **fields)


def stage(concurrency: int, kind: StageKind = "ladder", **options: Any) -> StageInput:
    return stage_of(columns(concurrency=concurrency, **options), concurrency, kind)


def measured(concurrency: int, kind: StageKind = "ladder", **options: Any) -> MeasuredStage:
    """A valid measurement, without the checks of validity."""
    return MeasuredStage(concurrency, kind, table(concurrency=concurrency, **options))


def ladder(
    levels: Sequence[int], slowdown: Callable[[int], float], *, closing: float | None = 1.0, **options: Any
) -> list[MeasuredStage]:
    """Baseline at 1, `levels` whose TTFT is `slowdown(C)` times the baseline's, and a closing baseline."""
    stages = [measured(1, "baseline", **options)]
    stages += [measured(c, ttft=slowdown(c), **options) for c in levels]
    if closing is not None:
        stages.append(measured(1, "closing", ttft=closing, tpot=closing, **(options | {"seed": 99})))
    return stages
