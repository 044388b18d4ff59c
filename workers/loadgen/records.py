"""Keeps one row a request in preallocated columns, and hands them over as an Arrow table when the stage is over.

Knows nothing of statistics. The table holds the log's columns and, after them, what only the summary needs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from workers.loadgen.answer import Answer, Outcome
from workers.loadgen.prompts import Prepared

ERROR_CHARACTERS_MAX = 300
_ROWS_FIRST = 1024
_OUTCOMES = list(Outcome)
_SOURCES = ["usage", "events"]
_NONE = -1

_LABEL = pa.dictionary(pa.int8(), pa.string())
_WORDS = pa.dictionary(pa.int32(), pa.string())
LOG_FIELDS = [
    pa.field("request_id", pa.string(), nullable=False),
    pa.field("class", _LABEL, nullable=False),
    pa.field("attempt", pa.int8(), nullable=False),
    pa.field("outcome", _LABEL, nullable=False),
    pa.field("http_status", pa.int16()),
    pa.field("error", _WORDS),
    pa.field("measured", pa.bool_(), nullable=False),
    pa.field("t_due_ns", pa.int64(), nullable=False),
    pa.field("t_sent_ns", pa.int64()),
    pa.field("t_headers_ns", pa.int64()),
    pa.field("t_first_ns", pa.int64()),
    pa.field("t_last_ns", pa.int64()),
    pa.field("t_end_ns", pa.int64(), nullable=False),
    pa.field("connect_ms", pa.float32()),
    pa.field("input_tokens", pa.int32()),
    pa.field("output_tokens", pa.int32()),
    pa.field("cached_tokens", pa.int32()),
    pa.field("output_events", pa.int32(), nullable=False),
    pa.field("token_source", _LABEL),
    pa.field("finish_reason", _LABEL),
]
ITL_FIELD = pa.field("itl_ns", pa.list_(pa.int64()), nullable=False)
# `window_events`: output events that arrived inside the window. `lateness_ns`: t_sent − t_due of requests that had
# nothing else to wait for. `resent`: sent anew on a new connection, because the kept one was found closed.
SUMMARY_FIELDS = [
    pa.field("window_events", pa.int32(), nullable=False),
    pa.field("planned_input_tokens", pa.int32()),
    pa.field("planned_output_tokens", pa.int32()),
    pa.field("lateness_ns", pa.int64()),
    pa.field("resent", pa.bool_(), nullable=False),
]
SCHEMA = pa.schema([*LOG_FIELDS, ITL_FIELD, *SUMMARY_FIELDS])
_DTYPES = {pa.int8(): np.int8, pa.int16(): np.int16, pa.int32(): np.int32, pa.int64(): np.int64, pa.bool_(): np.bool_}


class _Column:
    """A numpy array that doubles when it is full."""

    def __init__(self, dtype: Any) -> None:
        self.data: NDArray[Any] = np.empty(_ROWS_FIRST, dtype)

    def put(self, place: int, value: Any) -> None:
        self.room(place + 1)
        self.data[place] = value

    def room(self, size: int) -> None:
        while size > len(self.data):
            self.data = np.concatenate([self.data, np.empty_like(self.data)])


class _Labels(dict[str, int]):
    """Texts numbered in the order in which they are first met."""

    def code(self, text: str | None) -> int:
        return _NONE if text is None else self.setdefault(text, len(self))


class Records:
    """Rows in the order in which requests end. Times given are monotonic ns; kept are ns from `start_ns`.

    Gaps between output events are kept for measured requests, or for all with `keep_itl`.
    """

    def __init__(self, class_names: list[str], start_ns: int, window_ns: tuple[int, int], keep_itl: bool) -> None:
        self._classes = class_names
        self._start_ns = start_ns
        self._window_ns = window_ns
        self._keep_itl = keep_itl
        self._rows = 0
        self._errors = _Labels()
        self._finishes = _Labels()
        self._columns = {field.name: _Column(self._dtype(field)) for field in SCHEMA if field.name != "itl_ns"}
        self._gaps = _Column(np.int64)
        self._gap_ends = _Column(np.int64)
        self._gap_count = 0

    def __len__(self) -> int:
        return self._rows

    def add(
        self,
        prepared: Prepared,
        answer: Answer,
        *,
        attempt: int,
        measured: bool,
        t_due_ns: int,
        lateness_ns: int | None,
        error: str | None,
    ) -> None:
        """`answer` has its outcome; `error` is its text without secrets."""
        assert answer.outcome is not None
        arrivals = np.frombuffer(answer.arrivals_ns, np.int64) - self._start_ns
        first, last = np.searchsorted(arrivals, self._window_ns)
        planned = prepared.planned_input_tokens
        finish = answer.finish_reason
        # A server that makes up ever new reasons must not overflow the label's number.
        known_or_room = finish in self._finishes or len(self._finishes) < 100
        row = {
            "request_id": prepared.request_id.encode(),
            "class": prepared.dealt.class_index,
            "attempt": attempt,
            "outcome": _OUTCOMES.index(answer.outcome),
            "http_status": answer.http_status,
            "error": self._errors.code(error[:ERROR_CHARACTERS_MAX] if error else None),
            "finish_reason": self._finishes.code(finish if known_or_room else None),
            "measured": measured,
            "t_due_ns": self._since_start(t_due_ns),
            "t_sent_ns": self._since_start(answer.t_sent_ns),
            "t_headers_ns": self._since_start(answer.t_headers_ns),
            "t_first_ns": self._since_start(answer.t_first_ns),
            "t_last_ns": self._since_start(answer.t_last_ns),
            "t_end_ns": self._since_start(answer.t_end_ns),
            "connect_ms": np.nan if answer.connect_ms is None else answer.connect_ms,
            "input_tokens": planned if answer.prompt_tokens is None else answer.prompt_tokens,
            "output_tokens": answer.output_tokens,
            "cached_tokens": answer.cached_tokens,
            "output_events": answer.output_events,
            "token_source": _NONE if answer.token_source is None else _SOURCES.index(answer.token_source),
            "window_events": last - first,
            "planned_input_tokens": planned,
            "planned_output_tokens": prepared.planned_output_tokens,
            "lateness_ns": lateness_ns,
            "resent": answer.resent,
        }
        place = self._rows
        for name, value in row.items():
            self._columns[name].put(place, _NONE if value is None else value)
        if measured or self._keep_itl:
            self._add_gaps(np.diff(arrivals))
        self._gap_ends.put(place, self._gap_count)
        self._rows += 1

    def table(self) -> pa.Table:
        """All rows, ordered by the time sent (due, where nothing was sent); see SCHEMA."""
        arrays = [self._itl() if field.name == "itl_ns" else self._array(field) for field in SCHEMA]
        return ordered(pa.Table.from_arrays(arrays, schema=SCHEMA))

    def _add_gaps(self, gaps: NDArray[np.int64]) -> None:
        end = self._gap_count + len(gaps)
        self._gaps.room(end)
        self._gaps.data[self._gap_count : end] = gaps
        self._gap_count = end

    def _since_start(self, time_ns: int | None) -> int | None:
        return None if time_ns is None else time_ns - self._start_ns

    def _array(self, field: pa.Field) -> pa.Array:
        data = self._columns[field.name].data[: self._rows]
        if field.name == "request_id":
            return pa.array(data.astype("U16"), pa.string())
        missing = (np.isnan(data) if data.dtype.kind == "f" else data == _NONE) if field.nullable else None
        if not pa.types.is_dictionary(field.type):
            return pa.array(data, field.type, mask=missing)
        labels = {
            "class": self._classes,
            "outcome": [str(outcome) for outcome in _OUTCOMES],
            "error": list(self._errors),
            "token_source": _SOURCES,
            "finish_reason": list(self._finishes),
        }[field.name]
        codes = pa.array(data, field.type.index_type, mask=missing)
        return pa.DictionaryArray.from_arrays(codes, pa.array(labels, pa.string()))

    def _itl(self) -> pa.Array:
        offsets = np.concatenate([[0], self._gap_ends.data[: self._rows]]).astype(np.int32)
        return pa.ListArray.from_arrays(offsets, self._gaps.data[: self._gap_count])

    @staticmethod
    def _dtype(field: pa.Field) -> Any:
        if field.name == "request_id":
            return "S16"
        kind = field.type.index_type if pa.types.is_dictionary(field.type) else field.type
        return np.float32 if pa.types.is_floating(kind) else _DTYPES[kind]


def ordered(table: pa.Table) -> pa.Table:
    """By the time sent; by the time due where nothing was sent."""
    sent = table["t_sent_ns"].to_numpy()
    due = table["t_due_ns"].to_numpy()
    return table.take(pa.array(np.argsort(np.where(np.isnan(sent), due, sent), kind="stable")))
