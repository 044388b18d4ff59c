"""Outcomes are counted alike from live counts and from the log, and said in words."""

from __future__ import annotations

import pyarrow as pa

from campaigns.services.outcomes import Outcomes
from workers.abort import FailureShare


def log_of(*rows: tuple[str, int | None, str | None]) -> bytes:
    table = pa.table(
        {
            "outcome": pa.array([row[0] for row in rows], pa.string()).dictionary_encode(),
            "http_status": pa.array([row[1] for row in rows], pa.int16()),
            "error": pa.array([row[2] for row in rows], pa.string()),
        }
    )
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def test_a_log_is_said_in_words() -> None:
    outcomes = Outcomes.of_log(
        log_of(
            ("ok", 200, None),
            *[("refused", 429, "queue is full")] * 3,
            ("timeout", None, None),
            ("cancelled", None, None),
        )
    )
    assert outcomes.ok == 1
    assert outcomes.ended == 5
    assert str(outcomes) == "80% of 5 requests failed: 3 × refused (429), 1 × timeout, such as: queue is full"


def test_an_empty_log_has_no_share() -> None:
    outcomes = Outcomes.of_log(log_of())
    assert outcomes.failed_pct is None
    assert str(outcomes) == "no request ended"


def test_live_counts_of_other_things_are_passed_over() -> None:
    outcomes = Outcomes.of_counts({"sent": 30, "measured": 20, "ok": 5, "refused": 5, "cancelled": 3})
    assert (outcomes.ok, outcomes.ended, outcomes.failed_pct) == (5, 10, 50.0)


def test_the_rule_waits_for_its_time_and_for_enough_requests() -> None:
    rule = FailureShare(error_pct=50, after_s=10)
    rule.take(9.9, Outcomes(0, {"refused": 100}))
    rule.take(10.0, Outcomes(0, {"refused": 4}))
    rule.take(11.0, Outcomes(50, {"refused": 50}))
    assert rule.fired() is None
    rule.take(12.0, Outcomes(49, {"refused": 51}))
    assert (rule.fired() or "").startswith("51% of 100 requests failed")
    rule.take(13.0, Outcomes(1000, {"refused": 51}))
    assert (rule.fired() or "").startswith("51%")
