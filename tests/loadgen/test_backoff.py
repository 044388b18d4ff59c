from datetime import UTC, datetime
from itertools import pairwise
from random import Random

import pytest

from workers.loadgen.answer import Answer, Outcome
from workers.loadgen.backoff import Backoff, retry_after_s

NOW = datetime(2026, 12, 1, 12, 0, 0, tzinfo=UTC)


def ended(outcome: Outcome, retry_after: str | None = None) -> Answer:
    answer = Answer()
    answer.fail(outcome, "", 0)
    answer.retry_after = retry_after
    return answer


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("20", 20),
        (" 0 ", 0),
        ("Tue, 01 Dec 2026 12:00:07 GMT", 7),
        ("Tue, 01 Dec 2026 11:00:00 GMT", 0),
        ("soon", None),
        ("-1", None),
        ("", None),
        ("²", None),
        (None, None),
    ],
)
def test_retry_after_is_seconds_or_a_date(value: str | None, seconds: float | None) -> None:
    assert retry_after_s(value, NOW) == seconds


@pytest.mark.parametrize("outcome", [Outcome.REFUSED, Outcome.CONNECT_ERROR, Outcome.HTTP_ERROR, Outcome.STREAM_ERROR])
def test_waits_grow_with_each_failure_up_to_a_limit_and_start_anew_after_a_success(outcome: Outcome) -> None:
    backoff = Backoff(Random(1), 10.0)
    waits = [backoff.after(ended(outcome), NOW) for _ in range(12)]
    assert 0.05 <= waits[0] <= 0.5
    assert all(later > earlier / 2 for earlier, later in pairwise(waits))
    assert 10.0 / 2 <= waits[-1] <= 10.0
    assert backoff.after(ended(Outcome.OK), NOW) == 0
    assert backoff.after(ended(outcome), NOW) <= 0.5


def test_the_server_s_wish_goes_first_but_not_beyond_the_limit() -> None:
    backoff = Backoff(Random(1), 10.0)
    assert backoff.after(ended(Outcome.REFUSED, "2"), NOW) == 2
    assert backoff.after(ended(Outcome.REFUSED, "3600"), NOW) == 10.0


def test_a_timeout_was_slow_enough() -> None:
    assert Backoff(Random(1), 10.0).after(ended(Outcome.TIMEOUT), NOW) == 0
