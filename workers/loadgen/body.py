"""Gives an answer its body, with the content coding undone. Knows nothing of transfer: parts come as they come."""

from __future__ import annotations

from collections.abc import Callable

from workers.loadgen.answer import Answer
from workers.loadgen.encoding import EncodingError, Inflater, inflater_for


class Body:
    """Begins when the answer has; `feed` each part with the time at which it came, then `finish`."""

    __slots__ = ("_answer", "_inflater", "feed")

    def __init__(self, answer: Answer, content_encoding: bytes, now_ns: int) -> None:
        self._answer = answer
        self._inflater: Inflater | None = None
        # Bound once: most bodies are plain, and this is called for every token.
        self.feed: Callable[[bytes, int], None] = answer.feed
        try:
            self._inflater = inflater_for(content_encoding)
        except EncodingError as error:
            answer.lose(str(error), now_ns)
        if self._inflater is not None:
            self.feed = self._inflate

    def finish(self, now_ns: int) -> None:
        """The whole body has come."""
        if self._inflater is not None and not self._inflater.whole:
            self._answer.lose("its compression has no end", now_ns)
        self._answer.finish(now_ns)

    def _inflate(self, data: bytes, now_ns: int) -> None:
        assert self._inflater is not None
        try:
            for part in self._inflater.feed(data):
                self._answer.feed(part, now_ns)
        except EncodingError as error:
            self._answer.lose(str(error), now_ns)
