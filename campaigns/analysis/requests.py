"""The requests of one stage as columns, and the latencies that follow from their time stamps.

Knows the request log's names and the definitions of TTFT, TPOT, ITL and E2E; knows no files, stages or verdicts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

OUTCOMES = ("ok", "timeout", "refused", "http_error", "connect_error", "stream_error", "cancelled")
OK, TIMEOUT, CANCELLED = OUTCOMES.index("ok"), OUTCOMES.index("timeout"), OUTCOMES.index("cancelled")
LATENCY_METRICS = ("ttft_ms", "tpot_ms", "itl_ms", "e2e_ms")

NS_PER_MS = 1e6
_TIMES = ("t_due_ns", "t_sent_ns", "t_first_ns", "t_last_ns", "t_end_ns", "t_answer_ns")
_TOKENS = ("input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens")


@dataclass(frozen=True, eq=False)
class RequestTable:
    """One row a request, n rows. Times are nanoseconds from the stage's start and tokens are counts, both float64 with
    NaN for "missing" (exact below 2**53 ns, 104 days). `class_index` points into `class_names`, `outcome` into
    `OUTCOMES`, `token_source` into `token_sources` (-1: none). `itl_ns`, where it was kept, holds the gaps of all
    requests behind each other; `itl_counts` says how many belong to each row.

    Latency arrays have n values: a number for a request that was answered, +inf for one that timed out ("longer than
    the limit"), NaN for one that has no such latency. They are per row of this table; take `cohort()` first.
    """

    class_names: tuple[str, ...]
    class_index: Ints
    measured: Bools
    outcome: Ints
    t_due_ns: Floats
    t_sent_ns: Floats
    t_first_ns: Floats
    t_last_ns: Floats
    t_end_ns: Floats
    t_answer_ns: Floats
    input_tokens: Floats
    output_tokens: Floats
    cached_tokens: Floats
    reasoning_tokens: Floats
    token_sources: tuple[str, ...]
    token_source: Ints
    open_loop: bool = False
    itl_ns: Floats | None = None
    itl_counts: Ints | None = None

    @classmethod
    def from_columns(cls, columns: Mapping[str, Any], *, open_loop: bool = False) -> RequestTable:
        """Build a table from the request log's columns (`class`, `outcome`, `measured`, `t_*_ns`, …), each an array or
        a list. Missing values may be None, NaN or, for times, negative. `outcome` holds names or indexes into
        `OUTCOMES`. Absent columns: everything is measured, one class named "default", times and tokens missing.

        Raises ValueError for an unknown outcome, unequal lengths or no `outcome` column.
        """
        if "outcome" not in columns:
            raise ValueError("a request table needs the column 'outcome'")
        n = len(columns["outcome"])
        unequal = sorted(name for name in columns if columns[name] is not None and len(columns[name]) != n)
        if unequal:
            raise ValueError(f"columns of unequal length: {', '.join(unequal)} (outcome has {n} rows)")
        classes, class_index = _codes(columns.get("class"), n, default="default")
        sources, source_index = _codes(columns.get("token_source"), n, default=None)
        measured = columns.get("measured")
        floats = {name: _floats(columns.get(name), n) for name in (*_TIMES, *_TOKENS)}
        for name in _TIMES:
            floats[name] = np.where(floats[name] < 0, np.nan, floats[name])
        itl_ns, itl_counts = _ragged(columns.get("itl_ns"))
        return cls(
            class_names=classes,
            class_index=class_index,
            measured=np.ones(n, dtype=bool) if measured is None else np.asarray(measured, dtype=bool),
            outcome=_outcomes(columns["outcome"]),
            token_sources=sources,
            token_source=source_index,
            open_loop=open_loop,
            itl_ns=itl_ns,
            itl_counts=itl_counts,
            **floats,
        )

    def __len__(self) -> int:
        return int(self.outcome.size)

    @cached_property
    def ok(self) -> Bools:
        return np.equal(self.outcome, OK)

    @property
    def _timed_out(self) -> Bools:
        return np.equal(self.outcome, TIMEOUT)

    @cached_property
    def start_ns(self) -> Floats:
        """Where latency begins: when the request was sent, or in an open loop when it was due."""
        return self.t_due_ns if self.open_loop else self.t_sent_ns

    @cached_property
    def ttft_ms(self) -> Floats:
        """A request that was cut off (`cancelled`) after its first token keeps its TTFT: leaving it out would keep only
        the quick ones."""
        seen = self.ok | ((self.outcome == CANCELLED) & np.isfinite(self.t_first_ns))
        return _latencies((self.t_first_ns - self.start_ns) / NS_PER_MS, seen, self._timed_out)

    @cached_property
    def tpot_ms(self) -> Floats:
        """NaN below two output tokens, and when all output came in one piece or after hidden thoughts: that shows no
        time per token."""
        span_ns = self.t_last_ns - self.t_first_ns
        gaps = self.output_tokens - 1
        defined = (gaps >= 1) & (span_ns > 0) & ~self.hidden_reasoning
        tpot = np.divide(span_ns / NS_PER_MS, gaps, out=np.full(len(self), np.nan), where=defined)
        return _latencies(tpot, self.ok, self._timed_out)

    @cached_property
    def hidden_reasoning(self) -> Bools:
        """The server counted thoughts that it did not send: what came first was not the first token."""
        return np.asarray((self.reasoning_tokens > 0) & (self.t_answer_ns == self.t_first_ns), bool)

    @cached_property
    def e2e_ms(self) -> Floats:
        """A request that was cut off counts as longer than what was seen of it (+inf)."""
        e2e = _latencies((self.t_end_ns - self.start_ns) / NS_PER_MS, self.ok, self._timed_out)
        return np.where(self.outcome == CANCELLED, np.inf, e2e)

    def latency(self, metric: str) -> Floats:
        """The values of `ttft_ms`, `tpot_ms` or `e2e_ms` a row. For `itl_ms` see `gaps`."""
        if metric not in ("ttft_ms", "tpot_ms", "e2e_ms"):
            raise ValueError(f"no latency a request is called {metric!r}")
        values: Floats = getattr(self, metric)
        return values

    def gaps(self) -> tuple[Floats, Ints]:
        """ITL of the answered requests in ms, and the row that each gap belongs to; empty when gaps were not kept."""
        if self.itl_ns is None or self.itl_counts is None:
            return np.empty(0), np.empty(0, dtype=np.int64)
        rows = np.repeat(np.arange(len(self)), self.itl_counts)
        kept = self.ok[rows]
        return self.itl_ns[kept] / NS_PER_MS, rows[kept]

    @property
    def counts(self) -> dict[str, int]:
        """How many rows ended in each outcome."""
        return {name: int(np.count_nonzero(self.outcome == index)) for index, name in enumerate(OUTCOMES)}

    @property
    def failure_pct(self) -> float | None:
        """Share of failed rows; those that the client cut off itself (`cancelled`) are neither failed nor counted."""
        judged = self.outcome != CANCELLED
        total = int(np.count_nonzero(judged))
        return 100.0 * int(np.count_nonzero(judged & ~self.ok)) / total if total else None

    def cohort(self) -> RequestTable:
        """The measured rows: those sent inside the window."""
        return self.select(self.measured)

    def of_class(self, name: str) -> RequestTable:
        """The rows of one class; none when the table does not know it."""
        if name not in self.class_names:
            return self.select(np.zeros(len(self), dtype=bool))
        return self.select(self.class_index == self.class_names.index(name))

    def select(self, rows: Bools) -> RequestTable:
        """The rows where the mask `rows` (n values) is true."""
        columns = {name: getattr(self, name)[rows] for name in ("class_index", "measured", "outcome", "token_source")}
        columns |= {name: getattr(self, name)[rows] for name in (*_TIMES, *_TOKENS)}
        if self.itl_ns is not None and self.itl_counts is not None:
            columns["itl_ns"] = self.itl_ns[np.repeat(rows, self.itl_counts)]
            columns["itl_counts"] = self.itl_counts[rows]
        return replace(self, **columns)


def concatenate(tables: Sequence[RequestTable]) -> RequestTable:
    """Pool measurements of the same load. Each table's times are moved behind the previous one's, so that the order of
    sending is kept; no latency changes. Gaps are kept only when every table has them.

    Raises ValueError for no table, or for open and closed loop mixed.
    """
    if not tables:
        raise ValueError("nothing to concatenate")
    if len({table.open_loop for table in tables}) > 1:
        raise ValueError("open and closed loop cannot be pooled: their latencies begin at different times")
    if len(tables) == 1:
        return tables[0]
    class_names = tuple(dict.fromkeys(name for table in tables for name in table.class_names))
    sources = tuple(dict.fromkeys(name for table in tables for name in table.token_sources))
    shifts_ns = np.cumsum([0.0, *(_last_ns(table) for table in tables[:-1])])
    columns: dict[str, Any] = {
        name: np.concatenate([getattr(table, name) + shift for table, shift in zip(tables, shifts_ns, strict=True)])
        for name in _TIMES
    }
    columns |= {name: np.concatenate([getattr(t, name) for t in tables]) for name in ("measured", "outcome", *_TOKENS)}
    with_gaps = all(table.itl_ns is not None for table in tables)
    return RequestTable(
        class_names=class_names,
        class_index=np.concatenate([_recode(t.class_index, t.class_names, class_names) for t in tables]),
        token_sources=sources,
        token_source=np.concatenate([_recode(t.token_source, t.token_sources, sources) for t in tables]),
        open_loop=tables[0].open_loop,
        itl_ns=np.concatenate([t.itl_ns for t in tables if t.itl_ns is not None]) if with_gaps else None,
        itl_counts=np.concatenate([t.itl_counts for t in tables if t.itl_counts is not None]) if with_gaps else None,
        **columns,
    )


def _latencies(values: Floats, seen: Bools, timed_out: Bools) -> Floats:
    return np.where(timed_out, np.inf, np.where(seen, values, np.nan))


def _last_ns(table: RequestTable) -> float:
    times = np.concatenate([table.t_due_ns, table.t_sent_ns, table.t_end_ns])
    known = times[np.isfinite(times)]
    return float(known.max()) if known.size else 0.0


def _recode(index: Ints, names: tuple[str, ...], all_names: tuple[str, ...]) -> Ints:
    places = np.array([*(all_names.index(name) for name in names), -1], dtype=np.int64)
    return places[index]


def _floats(values: Any, n: int) -> Floats:
    if values is None:
        return np.full(n, np.nan)
    # np.array turns None into NaN when told that the result is float.
    return np.array(values, dtype=np.float64)


def _codes(values: Any, n: int, default: str | None) -> tuple[tuple[str, ...], Ints]:
    """Distinct names in order of the alphabet, and each row's index into them (-1 for None)."""
    if values is None:
        return ((default,), np.zeros(n, dtype=np.int64)) if default else ((), np.full(n, -1, dtype=np.int64))
    texts: list[str | None] = [None if value is None or value == "" else str(value) for value in values]
    names = tuple(sorted({text for text in texts if text is not None}))
    places = {name: index for index, name in enumerate(names)}
    return names, np.array([-1 if text is None else places[text] for text in texts], dtype=np.int64)


def _outcomes(values: Any) -> Ints:
    array = np.asarray(values)
    if array.size == 0:
        return np.empty(0, dtype=np.int64)
    if np.issubdtype(array.dtype, np.integer):
        if array.min() < 0 or array.max() >= len(OUTCOMES):
            raise ValueError(f"an outcome's index must be 0 to {len(OUTCOMES) - 1}")
        return array.astype(np.int64)
    names, index = np.unique(array.astype(str), return_inverse=True)
    unknown = [str(name) for name in names if name not in OUTCOMES]
    if unknown:
        raise ValueError(f"unknown outcome {', '.join(unknown)}; known are {', '.join(OUTCOMES)}")
    return np.array([OUTCOMES.index(str(name)) for name in names], dtype=np.int64)[index]


def _ragged(lists: Iterable[Any] | None) -> tuple[Floats | None, Ints | None]:
    if lists is None:
        return None, None
    rows = [np.empty(0) if one is None else np.asarray(one, dtype=np.float64) for one in lists]
    flat = np.concatenate(rows) if rows else np.empty(0)
    return flat, np.array([row.size for row in rows], dtype=np.int64)
