"""How long a slot waits after a failure, so that a server in trouble is not hammered."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from random import Random

from workers.loadgen.answer import Answer, Outcome

# Of the first failure in a row; each further one doubles it. A timeout was slow enough by itself.
_FIRST_S = {
    Outcome.REFUSED: 0.5,
    Outcome.CONNECT_ERROR: 0.5,
    Outcome.HTTP_ERROR: 0.1,
    Outcome.STREAM_ERROR: 0.1,
}


class Backoff:
    """Of one slot: counts its failures in a row. No wait is longer than `max_s`."""

    def __init__(self, random: Random, max_s: float) -> None:
        self._max_s = max_s
        self._random = random
        self._failures = 0

    def after(self, answer: Answer, now: datetime) -> float:
        """Seconds to wait before the next request, at most `max_s`; the server's own Retry-After goes first."""
        first_s = _FIRST_S.get(answer.outcome) if answer.outcome is not None else None
        if first_s is None:
            self._failures = 0
            return 0.0
        self._failures += 1
        asked_s = retry_after_s(answer.retry_after, now) if answer.outcome is Outcome.REFUSED else None
        if asked_s is not None:
            return min(asked_s, self._max_s)
        # Half of it is drawn, so that slots that failed together do not come back together.
        return min(first_s * 2.0 ** min(self._failures - 1, 60), self._max_s) * (0.5 + self._random.random() / 2)


def retry_after_s(value: str | None, now: datetime) -> float | None:
    """Seconds that a Retry-After header asks for (RFC 9110, 10.2.3): a number or a date; null when it says neither."""
    if value is None:
        return None
    if value.strip().isascii() and value.strip().isdigit():
        return float(value)
    try:
        date = parsedate_to_datetime(value)
    except (ValueError, OverflowError):
        return None
    return max(0.0, ((date if date.tzinfo else date.replace(tzinfo=UTC)) - now).total_seconds())
