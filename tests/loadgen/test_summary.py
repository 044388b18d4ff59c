from typing import Any

import numpy as np
import pytest

from workers.loadgen.answer import Answer, Outcome
from workers.loadgen.deal import Dealt
from workers.loadgen.prompts import Prepared
from workers.loadgen.records import Records
from workers.loadgen.summary import Window, measured_summary, statistics

MS = 1_000_000
WINDOW = Window(1000 * MS, 2000 * MS)


@pytest.mark.parametrize(
    ("sample", "p50", "p95", "p99"),
    [
        ([100], 100, 100, 100),
        ([100, 200], 150, 195, 199),
        ([278, 300, 320, 350, 400, 900, 1040, 1100, 1290, 1340], 650, 1317.5, 1335.5),
        ([7780.8, 9000, 15000, 22000, 24000, 30000, 35000, 39701.4], 23000, 38055.91, 39372.30),
    ],
)
def test_percentiles_are_linear_interpolations(sample: list[float], p50: float, p95: float, p99: float) -> None:
    found = statistics(np.array(sample, float))
    assert found is not None
    assert (found["p50"], found["count"], found["max"]) == (p50, len(sample), max(sample))
    assert found["p95"] == pytest.approx(p95)
    assert found["p99"] == pytest.approx(p99)


def test_no_data_is_null_and_nan_is_no_data() -> None:
    assert statistics(np.array([])) is None
    assert statistics(np.array([np.nan])) is None


def records() -> Records:
    return Records(["a"], 0, (WINDOW.start_ns, WINDOW.end_ns), keep_itl=False)


def add(
    to: Records, sent_ms: float, arrivals_ms: list[float], end_ms: float, tokens: int | None = None, **more: Any
) -> None:
    """One request whose output arrived at these times."""
    answer = Answer()
    answer.sent(round(sent_ms * MS))
    answer.arrivals_ns.extend(round(time * MS) for time in arrivals_ms)
    answer.completion_tokens = tokens
    answer.reasoning_tokens = more.pop("reasoning", None)
    said_ms = more.pop("said_ms", arrivals_ms[0] if arrivals_ms else None)
    answer.t_answer_ns = None if said_ms is None else round(said_ms * MS)
    answer.fail(more.pop("outcome", Outcome.OK), "", round(end_ms * MS))
    answer.streamed = more.pop("streamed", True)
    prepared = Prepared(Dealt(0, 0, 1, 1), "0" * 16, b"", 1, 10, 20)
    measured = WINDOW.start_ns <= sent_ms * MS < WINDOW.end_ns
    to.add(
        prepared,
        answer,
        attempt=1,
        measured=measured,
        t_due_ns=round(more.pop("due_ms", sent_ms) * MS),
        lateness_ns=None,
        error=None,
    )


def summary_of(rows: Records, open_loop: bool = False) -> dict[str, Any]:
    gaps = [[one] if one else [] for one in rows.gaps()]
    return measured_summary(rows.table(), WINDOW, open_loop, ["a"], gaps)


def test_several_tokens_an_event_are_paced_by_tokens_and_gaps_by_events() -> None:
    rows = records()
    add(rows, 1000, [1200 + 36 * step for step in range(10)], 1600, tokens=40)
    summary = summary_of(rows)
    assert summary["tpot_ms"]["p50"] == pytest.approx(324 / 39)
    assert (summary["itl_ms"]["p50"], summary["itl_ms"]["count"]) == (36, 9)
    assert summary["output_tokens_per_s"] == pytest.approx(40)


def test_tokens_count_when_they_arrive_whoever_they_belong_to() -> None:
    rows = records()
    add(rows, 500, [900, 1100, 1900], 1950, tokens=6)  # of the warm-up: 2 of 3 events inside, 2 tokens each
    add(rows, 1500, [1600, 2500], 2600, tokens=2)  # measured: 1 of 2 events inside
    add(rows, 1800, [1900], 2600, outcome=Outcome.CANCELLED)  # no count: worth the usual 8 / 5 tokens an event
    add(rows, 2100, [2200], 2300, tokens=1)
    assert summary_of(rows)["output_tokens_per_s"] == pytest.approx(4 + 1 + 8 / 5 + (9 / 6 - 8 / 5))


def test_in_flight_is_a_mean_over_time() -> None:
    rows = records()
    add(rows, 0, [10], 1500)
    add(rows, 1250, [1300], 5000)
    assert summary_of(rows)["in_flight_mean"] == pytest.approx(0.5 + 0.75)


@pytest.mark.parametrize(("arrivals", "tokens"), [([1200], 443), ([1200], 1), ([], 0)])
def test_one_event_or_token_shows_no_pace(arrivals: list[float], tokens: int) -> None:
    rows = records()
    add(rows, 1000, arrivals, 1300, tokens=tokens)
    summary = summary_of(rows)
    assert (summary["tpot_ms"], summary["itl_ms"], summary["requests"]["ok"]) == (None, None, 1)
    assert (summary["ttft_ms"] is None) == (not arrivals)


def test_thoughts_that_are_seen_are_tokens_and_the_answer_has_its_own_time() -> None:
    rows = records()
    add(rows, 1000, [1180 + 20 * step for step in range(443)], 10_100, tokens=443, reasoning=441, said_ms=10_000)
    add(rows, 1000, [1180, 1200], 1300, tokens=2, reasoning=2, said_ms=None)  # only thoughts
    add(rows, 1000, [1100, 1120], 1300, tokens=2)
    summary = summary_of(rows)
    assert (summary["ttft_ms"]["max"], summary["tpot_ms"]["count"], summary["hidden_reasoning"]) == (180, 3, 0)
    assert (summary["answer_ms"]["count"], summary["answer_ms"]["p50"]) == (1, 9000)


def test_hidden_thoughts_are_marked_and_show_no_pace() -> None:
    rows = records()
    add(rows, 1000, [9000, 9001], 9100, tokens=443, reasoning=440)
    summary = summary_of(rows)
    assert (summary["tpot_ms"], summary["answer_ms"], summary["hidden_reasoning"]) == (None, None, 1)
    assert summary["ttft_ms"]["p50"] == 8000


def test_gaps_are_counted_to_the_microsecond_and_their_ends_are_exact() -> None:
    rows = records()
    times = np.cumsum([0, *np.random.default_rng(1).exponential(20_000_000, 5000), 3_000_000_000])
    add(rows, 1000, [1100 + time / MS for time in times], 999_999)
    gaps = np.diff(np.round(1100 * MS + times)) / MS
    found = summary_of(rows)["itl_ms"]
    assert (found["min"], found["max"], found["count"]) == (gaps.min(), gaps.max(), 5001)
    assert found["mean"] == pytest.approx(gaps.mean(), rel=1e-12)
    for share in (50, 90, 95, 99):
        assert found[f"p{share}"] == pytest.approx(np.percentile(gaps, share), abs=0.0011)


def test_an_answer_in_one_piece_has_no_ttft_but_its_tokens_count() -> None:
    rows = records()
    add(rows, 1000, [1500], 1500, tokens=30, streamed=False)
    summary = summary_of(rows)
    assert (summary["ttft_ms"], summary["tpot_ms"], summary["output_tokens_per_s"]) == (None, None, 30)


def test_an_open_loop_counts_latency_from_the_time_due() -> None:
    rows = records()
    add(rows, 1500, [1600, 1700], 1800, tokens=2, due_ms=1100)
    summary = summary_of(rows, open_loop=True)
    assert (summary["ttft_ms"]["p50"], summary["e2e_ms"]["p50"], summary["tpot_ms"]["p50"]) == (500, 700, 100)


def test_failures_are_counted_and_have_no_latency() -> None:
    rows = records()
    for outcome in Outcome:
        add(rows, 1000, [1100, 1200], 1300, outcome=outcome)
    summary = summary_of(rows)
    assert summary["requests"] == {"sent": 7, "measured": 7, "retries": 0} | {str(outcome): 1 for outcome in Outcome}
    assert summary["ttft_ms"]["count"] == summary["e2e_ms"]["count"] == 1


def test_an_empty_stage_is_null_all_over() -> None:
    summary = summary_of(records())
    assert (summary["ttft_ms"], summary["token_source"], summary["in_flight_mean"]) == (None, None, 0)
    assert summary["per_class"]["a"]["input_tokens"] is None
    assert measured_summary(records().table(), Window(5, 5), False, ["a"], [[]])["requests_per_s"] is None


def test_mixed_sources_of_counts_are_named() -> None:
    rows = records()
    add(rows, 1000, [1100, 1200], 1300)
    assert summary_of(rows)["token_source"] == "events"
    add(rows, 1000, [1100, 1200], 1300, tokens=2)
    assert summary_of(rows)["token_source"] == "mixed"


def test_thousands_of_rows_come_back_in_the_order_sent() -> None:
    rows = records()
    for number in range(3000):
        add(rows, 5000 - number, [6000], 7000 + number)
    table = rows.table()
    assert len(rows) == table.num_rows == 3000
    assert table["t_sent_ns"].to_pylist() == sorted((5000 - number) * MS for number in range(3000))
