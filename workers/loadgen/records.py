"""Keeps one row a request in typed columns, and hands them over as an Arrow table when the stage is over.

Knows nothing of statistics. The table holds the log's columns and, after them, what only the summary needs.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from workers.loadgen.answer import Answer, Outcome
from workers.loadgen.gaps import Counted, GapCounter
from workers.loadgen.prompts import Prepared

ERROR_CHARACTERS_MAX = 300
_OUTCOMES = list(Outcome)
_SOURCES = ["usage", "events", "tokenizer"]
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
    pa.field("t_answer_ns", pa.int64()),
    pa.field("reasoning_tokens", pa.int32()),
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
_TYPE_CODES = {pa.int8(): "b", pa.int16(): "h", pa.int32(): "i", pa.int64(): "q", pa.bool_(): "b", pa.float32(): "f"}
_HEX = np.frombuffer("".join(f"{byte:02x}" for byte in range(256)).encode(), np.uint8).reshape(256, 2)


class _Labels(dict[str, int]):
    """Texts numbered in the order in which they are first met."""

    def code(self, text: str | None) -> int:
        # A server can send half a surrogate pair, which is no text.
        return _NONE if text is None else self.setdefault(text.encode("utf-8", "replace").decode(), len(self))


class Records:
    """Rows in the order in which requests end. Times given are monotonic ns; kept are ns from `start_ns`.

    Gaps between output events of measured requests that ended ok are counted by class; with `keep_itl` the gaps of
    all requests are kept too, and are the table's last column.
    """

    def __init__(self, class_names: list[str], start_ns: int, window_ns: tuple[int, int], keep_itl: bool) -> None:
        self._classes = class_names
        self._start_ns = start_ns
        self._window_ns = window_ns
        self._keep_itl = keep_itl
        self._errors = _Labels()
        self._finishes = _Labels()
        self._fields = [*LOG_FIELDS, *SUMMARY_FIELDS]
        self._columns: list[array[Any]] = [array(self._type_code(field)) for field in self._fields]
        self._appends = [column.append for column in self._columns]
        # Texts whose tokens no server counted, and their rows.
        self._uncounted: list[tuple[int, str]] = []
        self._gap_counters = [GapCounter() for _ in class_names]
        self._gaps = array("q")
        self._gap_ends = array("q", [0])

    def __len__(self) -> int:
        return len(self._columns[0])

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
        start_ns = self._start_ns
        arrivals = answer.arrivals_ns
        window_start_ns, window_end_ns = self._window_ns
        class_index = prepared.dealt.class_index
        planned = prepared.planned_input_tokens
        finish = answer.finish_reason
        # A server that makes up ever new reasons must not overflow the label's number.
        known_or_room = finish in self._finishes or len(self._finishes) < 100
        # An answer without thoughts has one first output; saying it twice would cost a tenth of the log.
        thought = answer.reasoning_tokens or answer.t_answer_ns != answer.t_first_ns
        t_answer_ns = answer.t_answer_ns if thought else None
        row = (
            int(prepared.request_id, 16),
            class_index,
            attempt,
            _OUTCOMES.index(answer.outcome),
            answer.http_status,
            self._errors.code(error[:ERROR_CHARACTERS_MAX] if error else None),
            measured,
            t_due_ns - start_ns,
            answer.t_sent_ns and answer.t_sent_ns - start_ns,
            answer.t_headers_ns and answer.t_headers_ns - start_ns,
            answer.t_first_ns and answer.t_first_ns - start_ns,
            answer.t_last_ns and answer.t_last_ns - start_ns,
            answer.t_end_ns and answer.t_end_ns - start_ns,
            np.nan if answer.connect_ms is None else answer.connect_ms,
            planned if answer.prompt_tokens is None else answer.prompt_tokens,
            answer.output_tokens,
            answer.cached_tokens,
            len(arrivals),
            None if answer.token_source is None else _SOURCES.index(answer.token_source),
            self._finishes.code(finish if known_or_room else None),
            t_answer_ns and t_answer_ns - start_ns,
            answer.reasoning_tokens,
            bisect_left(arrivals, window_end_ns + start_ns) - bisect_left(arrivals, window_start_ns + start_ns),
            planned,
            prepared.planned_output_tokens,
            lateness_ns,
            answer.resent,
        )
        for append, value in zip(self._appends, row, strict=True):
            append(_NONE if value is None else value)
        if answer.token_source == "events" and answer.text:
            self._uncounted.append((len(self) - 1, answer.text))
        counted = measured and answer.outcome is Outcome.OK
        if counted or self._keep_itl:
            times = np.frombuffer(arrivals, np.int64)
            gaps = times[1:] - times[:-1]
            if counted:
                self._gap_counters[class_index].add(gaps)
            if self._keep_itl:
                self._gaps.frombytes(gaps.tobytes())
                self._gap_ends.append(len(self._gaps))

    def count_tokens(self, count: Callable[[Sequence[str]], list[int]]) -> None:
        """Put a tokenizer's counts in the place of events, for answers that were made with `keep_text`."""
        by_name = {field.name: column for field, column in zip(self._fields, self._columns, strict=True)}
        counts = count([text for _, text in self._uncounted])
        for (row, _), tokens in zip(self._uncounted, counts, strict=True):
            by_name["output_tokens"][row] = tokens
            by_name["token_source"][row] = _SOURCES.index("tokenizer")

    def table(self) -> pa.Table:
        """All rows, ordered by the time sent (due, where nothing was sent)."""
        columns = {
            field.name: np.frombuffer(column, column.typecode)
            for field, column in zip(self._fields, self._columns, strict=True)
        }
        order = _order(columns["t_sent_ns"], columns["t_due_ns"])
        fields = list(self._fields)
        arrays = [self._array(field, columns[field.name][order]) for field in fields]
        if self._keep_itl:
            arrays.append(self._itl().take(pa.array(order)))
            fields.append(ITL_FIELD)
        return pa.Table.from_arrays(arrays, schema=pa.schema(fields))

    def gaps(self) -> list[Counted | None]:
        """Of each class."""
        return [counter.counted() for counter in self._gap_counters]

    def _array(self, field: pa.Field, data: NDArray[Any]) -> pa.Array:
        if field.name == "request_id":
            return _hex(data)
        missing = (np.isnan(data) if data.dtype.kind == "f" else data == _NONE) if field.nullable else None
        if pa.types.is_boolean(field.type):
            return pa.array(data.view(np.bool_))
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
        offsets = np.frombuffer(self._gap_ends, np.int64).astype(np.int32)
        return pa.ListArray.from_arrays(offsets, np.frombuffer(self._gaps, np.int64))

    @staticmethod
    def _type_code(field: pa.Field) -> str:
        if field.name == "request_id":
            return "Q"
        return _TYPE_CODES[field.type.index_type if pa.types.is_dictionary(field.type) else field.type]


def ordered(table: pa.Table) -> pa.Table:
    """By the time sent; by the time due where nothing was sent."""
    sent = table["t_sent_ns"].fill_null(_NONE).to_numpy()
    return table.take(pa.array(_order(sent, table["t_due_ns"].to_numpy())))


def _order(sent_ns: NDArray[np.int64], due_ns: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.argsort(np.where(sent_ns == _NONE, due_ns, sent_ns), kind="stable")


def _hex(numbers: NDArray[np.uint64]) -> pa.Array:
    """Sixteen hexadecimal digits each."""
    text = _HEX[numbers.astype(">u8").view(np.uint8)].reshape(-1)
    offsets = np.arange(0, 16 * len(numbers) + 1, 16, dtype=np.int32)
    return pa.StringArray.from_buffers(len(numbers), pa.py_buffer(offsets), pa.py_buffer(text))
