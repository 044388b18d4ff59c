"""Counts the gaps between output events of one traffic class: any number of them in little memory.

A gap below one second is counted by the whole microsecond, a longer one is kept. Percentiles are therefore right to
half a microsecond; count, mean, minimum and maximum are exact.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

_STEP_NS = 1_000
_STEPS = 1_000_000
# Counting many gaps at once is cheap, and short enough to keep no request waiting.
_PENDING_MAX = 16_384


class Counted(msgspec.Struct, frozen=True):
    """`steps` and `counts` belong together; times in ns."""

    steps: list[int]
    counts: list[int]
    longer_ns: list[int]
    sum_ns: int
    min_ns: int
    max_ns: int


class GapCounter:
    def __init__(self) -> None:
        self._pending = array("q")
        self._counts = np.zeros(0, np.int64)
        self._longer = array("q")
        self._sum_ns = 0
        self._min_ns = np.iinfo(np.int64).max
        self._max_ns = 0

    def add(self, gaps_ns: NDArray[np.int64]) -> None:
        self._pending.frombytes(gaps_ns.tobytes())
        if len(self._pending) >= _PENDING_MAX:
            self._count()

    def counted(self) -> Counted | None:
        """Null when there was no gap."""
        self._count()
        total = int(self._counts.sum()) + len(self._longer)
        if not total:
            return None
        steps = np.flatnonzero(self._counts)
        return Counted(
            steps=steps.tolist(),
            counts=self._counts[steps].tolist(),
            longer_ns=list(self._longer),
            sum_ns=self._sum_ns,
            min_ns=int(self._min_ns),
            max_ns=int(self._max_ns),
        )

    def _count(self) -> None:
        if not self._pending:
            return
        gaps = np.maximum(np.frombuffer(self._pending, np.int64), 0)
        self._sum_ns += int(gaps.sum())
        self._min_ns = min(self._min_ns, gaps.min())
        self._max_ns = max(self._max_ns, gaps.max())
        steps = gaps // _STEP_NS
        short = steps < _STEPS
        self._longer.frombytes(gaps[~short].tobytes())
        counts = np.bincount(steps[short])
        if len(counts) > len(self._counts):
            self._counts = np.concatenate([self._counts, np.zeros(len(counts) - len(self._counts), np.int64)])
        self._counts[: len(counts)] += counts
        self._pending = array("q")


def gap_statistics(parts: Sequence[Counted], percentiles: Sequence[int]) -> dict[str, float | int] | None:
    """{mean, p…, min, max, count} in ms of what several processes or classes counted; null when there is nothing."""
    if not parts:
        return None
    short_ns = np.concatenate([np.array(part.steps, np.int64) for part in parts]) * _STEP_NS + _STEP_NS // 2
    longer_ns = np.concatenate([np.array(part.longer_ns, np.int64) for part in parts])
    values = np.concatenate([short_ns, longer_ns])
    counts = np.concatenate([*(np.array(part.counts, np.int64) for part in parts), np.ones(len(longer_ns), np.int64)])
    order = np.argsort(values)
    ends = np.cumsum(counts[order])
    total = int(ends[-1])
    low, high = min(part.min_ns for part in parts), max(part.max_ns for part in parts)

    ranks = np.array(percentiles) / 100 * (total - 1)
    places = np.searchsorted(ends, [np.floor(ranks), np.ceil(ranks)], side="right")
    below, above = np.clip(values[order][places], low, high)
    found = (below + (above - below) * (ranks - np.floor(ranks))) / 1e6
    return {
        "mean": sum(part.sum_ns for part in parts) / total / 1e6,
        **{f"p{share}": float(value) for share, value in zip(percentiles, found, strict=True)},
        "min": low / 1e6,
        "max": high / 1e6,
        "count": total,
    }
