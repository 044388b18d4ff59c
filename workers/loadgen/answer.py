"""Turns the bytes of one HTTP answer, in the order they arrive, into one outcome with its times and counts.

Every transport feeds it; it does no I/O, reads no clock and never raises. Times are monotonic ns given by the caller.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping
from enum import StrEnum

from workers.loadgen.endpoint import without_query
from workers.loadgen.payload import Reading, Usage, error_text, read_payload
from workers.loadgen.shape import Shape, shape_of
from workers.loadgen.sse import EventSplitter, EventTooLong

BODY_BYTES_MAX = 16 * 1024 * 1024
ERROR_BYTES_MAX = 64 * 1024
_BOM = b"\xef\xbb\xbf"
# A stream whose events hardly repeat their shape is not worth learning.
_SHAPES_MISSED_MAX = 20


class Outcome(StrEnum):
    """Every request ends in exactly one of these."""

    OK = "ok"
    TIMEOUT = "timeout"
    REFUSED = "refused"
    HTTP_ERROR = "http_error"
    CONNECT_ERROR = "connect_error"
    STREAM_ERROR = "stream_error"
    CANCELLED = "cancelled"


class Answer:
    """One request's answer. The first outcome stands: whatever comes after it (text after [DONE], a reset) is ignored.

    `arrivals_ns` holds the time of every event that carried output; `t_first_ns` and `t_last_ns` stay null when the
    server answered with one JSON object instead of a stream. `t_answer_ns` is the first output that is not a thought.
    `t_heard_ns` is when any part of the body last came. `connect_ms` is what the connection took when this request is
    its first; `resent`: a kept one was found closed.
    """

    __slots__ = (
        "_body",
        "_buffer",
        "_finished",
        "_next_shape",
        "_said",
        "_seen",
        "_shape",
        "_shapes_missed",
        "_splitter",
        "_text",
        "arrivals_ns",
        "cached_tokens",
        "completion_tokens",
        "connect_ms",
        "error",
        "finish_reason",
        "http_status",
        "outcome",
        "prompt_tokens",
        "reasoning_tokens",
        "resent",
        "retry_after",
        "streamed",
        "t_answer_ns",
        "t_end_ns",
        "t_headers_ns",
        "t_heard_ns",
        "t_sent_ns",
    )

    def __init__(self, keep_text: bool = False) -> None:
        self.outcome: Outcome | None = None
        self.error: str | None = None
        self.http_status: int | None = None
        self.retry_after: str | None = None
        self.t_sent_ns: int | None = None
        self.t_headers_ns: int | None = None
        self.t_heard_ns: int | None = None
        self.t_answer_ns: int | None = None
        self.t_end_ns: int | None = None
        self.arrivals_ns = array("q")
        self.streamed = True
        self.connect_ms: float | None = None
        self.resent = False
        self.finish_reason: str | None = None
        self.prompt_tokens: int | None = None
        self.completion_tokens: int | None = None
        self.cached_tokens: int | None = None
        self.reasoning_tokens: int | None = None
        self._text: list[str] | None = [] if keep_text else None
        self._said: list[str] = []
        self._seen = 0
        self._finished = 0
        self._splitter: EventSplitter | None = None
        # Of the last event, and of the next if it begins a new part of the body.
        self._shape: Shape | None = None
        self._next_shape: Shape | None = None
        self._shapes_missed = 0
        self._buffer = bytearray()
        self._body: Callable[[bytes, int], None] = self._sniff

    @property
    def t_first_ns(self) -> int | None:
        return self.arrivals_ns[0] if self.streamed and self.arrivals_ns else None

    @property
    def t_last_ns(self) -> int | None:
        return self.arrivals_ns[-1] if self.streamed and self.arrivals_ns else None

    @property
    def output_events(self) -> int:
        return len(self.arrivals_ns)

    @property
    def text(self) -> str:
        """The answer's text with its thoughts; empty unless the answer was made with `keep_text`."""
        return "".join(self._text or ())

    @property
    def said(self) -> str:
        """The answer's text without its thoughts; empty unless the answer was made with `keep_text`."""
        return "".join(self._said)

    @property
    def output_tokens(self) -> int | None:
        """The server's count; events where it gave none (or 0 beside output); null for a failure without a count."""
        if self._counted_by_server:
            return self.completion_tokens
        return len(self.arrivals_ns) if self.outcome is Outcome.OK else None

    @property
    def token_source(self) -> str | None:
        if self._counted_by_server:
            return "usage"
        return "events" if self.outcome is Outcome.OK else None

    @property
    def _counted_by_server(self) -> bool:
        return self.completion_tokens is not None and (self.completion_tokens > 0 or not self.arrivals_ns)

    @property
    def _refused(self) -> bool:
        return self.http_status is not None and not 200 <= self.http_status < 300

    # Called by the transport, in this order.

    def sent(self, now_ns: int) -> None:
        """The request's last byte was handed to the socket."""
        self.t_sent_ns = now_ns

    def begin(self, status: int, headers: Mapping[bytes, bytes], now_ns: int) -> None:
        """The head arrived; header names are lower case."""
        if self.outcome is not None:
            return
        self.http_status = status
        self.t_headers_ns = self.t_heard_ns = now_ns
        if self._refused:
            self._body = self._collect_error
            retry_after = headers.get(b"retry-after")
            self.retry_after = retry_after.decode("latin-1") if retry_after is not None else None
            if 300 <= status < 400 and b"location" in headers:
                place = without_query(headers[b"location"].decode("latin-1"))
                message = f"HTTP {status}: redirected to {place}; give the final address as base_url"
                self.fail(Outcome.HTTP_ERROR, message, now_ns)

    def feed(self, data: bytes, now_ns: int) -> None:
        """A part of the body arrived, after transfer and content codings were undone."""
        if self.outcome is not None:
            return
        self.t_heard_ns = now_ns
        # Nearly every part of nearly every answer.
        shape = self._next_shape
        if shape is not None and shape.fits(data):
            self.arrivals_ns.append(now_ns)
            if self._text is not None:
                text = shape.text_in(data)
                self._keep(text, text if shape.said else "")
        else:
            self._body(data, now_ns)

    def finish(self, now_ns: int) -> None:
        """The whole body arrived, as its framing tells."""
        if self.outcome is not None:
            return
        if self._refused:
            outcome = Outcome.REFUSED if self.http_status in (429, 503) else Outcome.HTTP_ERROR
            words = error_text(bytes(self._buffer))
            self.fail(outcome, f"HTTP {self.http_status}" + (f": {words}" if words else ""), now_ns)
        elif self._splitter is not None:
            self._finish_stream(self._splitter, now_ns)
        elif self._body == self._collect_json:
            self._finish_json(now_ns)
        else:
            self.fail(Outcome.STREAM_ERROR, "the answer is empty", now_ns)

    def lose(self, reason: str, now_ns: int) -> None:
        """The connection or the coding broke before the body was whole. A status of failure still counts."""
        if self._refused:
            self.finish(now_ns)
        self.fail(Outcome.STREAM_ERROR, f"the answer was cut short: {reason}", now_ns)

    def fail(self, outcome: Outcome, error: str, now_ns: int) -> None:
        if self.outcome is None:
            self.outcome = outcome
            self.error = error
            self.t_end_ns = now_ns

    # How the body is read: decided by its first byte, because content types are often wrong.

    def _sniff(self, data: bytes, now_ns: int) -> None:
        start = (bytes(self._buffer) + data).lstrip()
        first = start.removeprefix(_BOM).lstrip()[:1]
        if not first or _BOM.startswith(start):
            self._buffer[:] = start
            return
        self._buffer.clear()
        if first == b"{":
            self._body = self._collect_json
        elif first == b"<":
            self.fail(Outcome.STREAM_ERROR, "the answer is a web page, not a stream; check base_url", now_ns)
        else:
            self._splitter = EventSplitter()
            self._body = self._read_stream
        self.feed(start, now_ns)

    def _collect_error(self, data: bytes, now_ns: int) -> None:
        self._buffer += data[: ERROR_BYTES_MAX - len(self._buffer)]

    def _collect_json(self, data: bytes, now_ns: int) -> None:
        self._buffer += data
        if len(self._buffer) > BODY_BYTES_MAX:
            self.fail(Outcome.STREAM_ERROR, f"the answer is longer than {BODY_BYTES_MAX} bytes", now_ns)

    def _read_stream(self, data: bytes, now_ns: int) -> None:
        assert self._splitter is not None
        if self._next_shape is not None:
            self._shapes_missed += 1
            self._next_shape = None
        try:
            events = self._splitter.feed(data)
        except EventTooLong:
            self.fail(Outcome.STREAM_ERROR, "an event has no end", now_ns)
            return
        for name, payload in events:
            self._take_event(name, payload, now_ns)
            if self.outcome is not None:
                return
        if events and self._shapes_missed < _SHAPES_MISSED_MAX and not self._splitter.pending:
            self._next_shape = self._shape

    def _take_event(self, name: bytes, data: bytes, now_ns: int) -> None:
        if name == b"error":
            self.fail(Outcome.STREAM_ERROR, f"error in the answer: {error_text(data)}", now_ns)
        elif data[:1] == b"{":
            reading = read_payload(data)
            self._take(reading, now_ns)
            if reading is not None and self._shapes_missed < _SHAPES_MISSED_MAX:
                self._shape = shape_of(data, reading) if not name else None
        elif (text := data.strip()) == b"[DONE]":
            self._finish_done(now_ns)
        elif text:
            self._take(read_payload(text), now_ns)

    def _take(self, reading: Reading | None, now_ns: int) -> None:
        if reading is None:
            return
        if reading.error is not None:
            self.fail(Outcome.STREAM_ERROR, f"error in the answer: {reading.error}", now_ns)
            return
        self._seen |= reading.seen
        if reading.finish_reason is not None:
            self._finished |= reading.finished
            self.finish_reason = reading.finish_reason
        if reading.usage is not None:
            self._take_usage(reading.usage)
        if reading.output:
            self.arrivals_ns.append(now_ns)
            if reading.visible and self.t_answer_ns is None:
                self.t_answer_ns = now_ns
            self._keep(reading.text, reading.said)

    def _keep(self, text: str, said: str) -> None:
        if self._text is not None:
            self._text.append(text)
            self._said.append(said)

    def _take_usage(self, usage: Usage) -> None:
        """Usage may grow in every event and lack a part in some: the last given number counts."""
        if usage.prompt_tokens is not None:
            self.prompt_tokens = usage.prompt_tokens
        if usage.completion_tokens is not None:
            self.completion_tokens = usage.completion_tokens
        if usage.cached_tokens is not None:
            self.cached_tokens = usage.cached_tokens
        if usage.reasoning_tokens is not None:
            self.reasoning_tokens = usage.reasoning_tokens

    def _finish_done(self, now_ns: int) -> None:
        if self.arrivals_ns or self._finished or self.completion_tokens is not None:
            self._succeed(now_ns)
        else:
            self.fail(Outcome.STREAM_ERROR, "the stream ended without an answer", now_ns)

    def _finish_stream(self, splitter: EventSplitter, now_ns: int) -> None:
        last = splitter.finish()
        if last is not None:
            self._take_event(*last, now_ns)
        if self._finished and self._finished == self._seen:
            self._succeed(now_ns)
        else:
            self.lose("no [DONE] and no finish reason came", now_ns)

    def _finish_json(self, now_ns: int) -> None:
        self.streamed = False
        body = bytes(self._buffer).removeprefix(_BOM)
        self._take(read_payload(body), now_ns)
        if self._seen:
            self._succeed(now_ns)
        else:
            self.fail(Outcome.STREAM_ERROR, f"the answer holds no choice: {error_text(body)}", now_ns)

    def _succeed(self, now_ns: int) -> None:
        if self.outcome is None:
            self.outcome = Outcome.OK
            self.t_end_ns = now_ns
