"""The HTTP/1.1 side of one connection: sends a request, parses what comes back and feeds the `Answer` at hand.

How bytes move is a subclass's business; what they mean is the answer's.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from time import monotonic_ns

import httptools

from workers.loadgen.answer import Answer, Outcome
from workers.loadgen.body import Body
from workers.loadgen.transport import END_LIMIT_S


class Line(ABC):
    """`usable`: the next request can be sent on it. `connect_ms`: what connecting took, with TLS."""

    def __init__(self) -> None:
        self.usable = False
        self.connect_ms: float | None = None
        self._used = self._kept = False
        self._parser = httptools.HttpResponseParser(self)
        # Of the request that is out, until its answer is over.
        self._answer: Answer | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._end_timer: asyncio.TimerHandle | None = None
        self._now_ns = 0
        self._reset()

    def _reset(self) -> None:
        self._headers: dict[bytes, bytes] = {}
        self._framed = True
        self._heard = False
        self._keep_alive = True
        self._body: Body | None = None

    async def exchange(self, request: bytes, answer: Answer) -> bool:
        """False when a kept connection closed before a byte came back: the request may be sent anew."""
        self._kept, self._used, self.usable = self._used, True, False
        answer.connect_ms = None if self._kept else self.connect_ms
        self._reset()
        self._answer = answer
        answer.t_sent_ns = None
        self._waiter = asyncio.get_running_loop().create_future()
        # Where all goes in one call, its start is the time: this process may lose the CPU before the call returns,
        # while the server is at work already.
        before_ns = monotonic_ns()
        if self._write(request):
            answer.sent(before_ns)
        try:
            await self._waiter
        finally:
            self._answer = None
            if self._end_timer is not None:
                self._end_timer.cancel()
                self._end_timer = None
        if answer.outcome is not None:
            return True
        if self._kept and not self._heard:
            return False
        answer.fail(Outcome.CONNECT_ERROR, "the server closed the connection before it answered", self._now_ns)
        return True

    def abort(self) -> None:
        self.usable = False
        self._close()
        self._wake()

    # What the subclass does.

    @abstractmethod
    def _write(self, data: bytes) -> bool:
        """Hand bytes to the socket; false when some have to wait: `_written` is called once the last one went."""

    @property
    @abstractmethod
    def _writing(self) -> bool:
        """Whether bytes wait."""

    @abstractmethod
    def _close(self) -> None:
        """At once. Harmless when it is closed."""

    # What the subclass reports.

    def _written(self, now_ns: int) -> None:
        """The last byte went in a call that began at `now_ns`."""
        if self._answer is not None and self._answer.t_sent_ns is None:
            self._answer.sent(now_ns)

    def _fail(self, reason: str) -> None:
        if self._answer is not None:
            self._answer.fail(Outcome.STREAM_ERROR, reason, monotonic_ns())
        self.abort()

    def _received(self, data: bytes | memoryview, now_ns: int) -> None:
        answer = self._answer
        if answer is None:
            # Nothing was asked: an unasked answer, like 408, before the server closes.
            self.abort()
            return
        if self._kept and not self._heard and answer.t_sent_ns is not None and now_ns < answer.t_sent_ns:
            # It came before the request was sent, so it answers another: like a late 408. This one is sent anew.
            self.abort()
            return
        self._now_ns = max(now_ns, self._now_ns)
        self._heard = True
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._fail_parsing(answer, error)
            return
        if answer.outcome is not None and self._answer is not None and self._end_timer is None:
            self._end_timer = asyncio.get_running_loop().call_later(END_LIMIT_S, self.abort)

    def _lost(self, error: Exception | None, now_ns: int) -> None:
        """The connection is gone: closed by the server when `error` is null."""
        self.usable = False
        self._now_ns = now_ns
        answer = self._answer
        if answer is not None and self._body is not None:
            if error is None and not self._framed:
                self._body.finish(now_ns)
            else:
                words = getattr(error, "strerror", None) or str(error or "the server closed the connection")
                answer.lose(words, now_ns)
        self._wake()

    # httptools

    def on_message_begin(self) -> None:
        if self._answer is None:
            self.abort()

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._body is None:
            self._headers[name.lower()] = value

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        answer = self._answer
        if status < 200 or answer is None:
            return
        self._keep_alive = self._parser.should_keep_alive()
        headers = self._headers
        self._framed = b"content-length" in headers or b"chunked" in headers.get(b"transfer-encoding", b"").lower()
        if answer.t_sent_ns is None or answer.t_sent_ns > self._now_ns:
            # It answered before it had read the whole request: there is no later moment to call "sent".
            answer.sent(self._now_ns)
        answer.begin(status, headers, self._now_ns)
        self._body = Body(answer, headers.get(b"content-encoding", b""), self._now_ns)

    def on_body(self, data: bytes) -> None:
        if self._body is not None and self._answer is not None:
            self._body.feed(data, self._now_ns)

    def on_message_complete(self) -> None:
        if self._body is None:
            self._headers = {}  # of a 1xx answer
            return
        if self._answer is None:
            return
        self._body.finish(self._now_ns)
        if self._keep_alive and not self._writing:
            self.usable = True
        else:
            self._close()
        self._wake()

    def _fail_parsing(self, answer: Answer, error: Exception) -> None:
        if self._body is not None:
            answer.lose(f"its HTTP framing is broken ({error})", self._now_ns)
        elif isinstance(error, httptools.HttpParserUpgrade):
            answer.fail(Outcome.HTTP_ERROR, "the server asked for another protocol", self._now_ns)
        else:
            answer.fail(Outcome.HTTP_ERROR, f"the answer is not HTTP/1.1 ({error})", self._now_ns)
        self.abort()

    def _wake(self) -> None:
        """The answer at hand is over."""
        self._answer = None
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
