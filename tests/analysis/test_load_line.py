from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from campaigns.analysis.load_line import (
    DEFAULT_CRITERIA,
    Criterion,
    LimitedBy,
    LoadLine,
    MeasuredStage,
    find_load_line,
)
from campaigns.analysis.requests import RequestTable
from campaigns.analysis.validity import Check, check_stage
from tests.analysis.tables import WEIGHTS, columns, fail, ladder, measured, stage_of

INVALID = Check("lateness", False, "invalid", 9.0, 5.0, "the load generator was late")
GROWING = replace(INVALID, name="growing", reason="demand exceeds capacity", understates=True)


def line_of(
    stages: list[MeasuredStage], criteria: tuple[Criterion, ...] = DEFAULT_CRITERIA, **options: Any
) -> LoadLine:
    return find_load_line(stages, criteria, WEIGHTS, 7, **options)


def linear(limit: float) -> Any:
    """TTFT that is 50% over the baseline's at `limit` users."""
    return lambda c: 1 + 0.5 * (c - 1) / (limit - 1)


def with_outcome(concurrency: int, rows: Any, outcome: str, **options: Any) -> MeasuredStage:
    cols = fail(columns(concurrency=concurrency, **options), rows, outcome)
    cols["measured"][:] = True
    return MeasuredStage(concurrency, "ladder", RequestTable.from_columns(cols))


@pytest.mark.parametrize("truth", [3.5, 14.0, 25.5, 42.0])
def test_a_linear_slowdown_gives_the_bracket_that_holds_the_truth(truth: float) -> None:
    line = line_of(ladder((5, 10, 20, 30, 50), linear(truth)))
    answer = line.max_concurrency
    assert (line.verdict, answer.relation) == ("ok", "=")
    assert answer.passed is not None and answer.failed is not None
    assert answer.passed == answer.value and answer.passed <= truth < answer.failed
    assert answer.low is not None and answer.high is not None
    assert answer.low <= answer.value <= answer.high
    assert answer.low <= truth < answer.high + 1
    assert answer.limited_by == LimitedBy("ttft_ms", "p50")


def test_the_estimate_is_where_the_curve_crosses() -> None:
    answer = line_of(ladder((5, 10, 20, 30, 50), linear(25.5))).max_concurrency
    assert answer.estimate == pytest.approx(25.5, rel=0.05)


def test_a_step_gives_its_place() -> None:
    answer = line_of(ladder((4, 8, 16, 24, 26, 32), lambda c: 1.1 if c <= 24 else 3.0)).max_concurrency
    assert (answer.passed, answer.failed, answer.low, answer.high) == (24, 26, 24, 25)
    assert answer.text == "24 (24–25): passed 24, failed 26 on TTFT p50"


def test_one_is_an_honest_answer_and_is_explained() -> None:
    line = line_of(ladder((5, 10), lambda c: 2.0))
    assert (line.max_concurrency.value, line.max_concurrency.relation, line.max_concurrency.failed) == (1, "=", 5)
    assert any("TTFT p50 goes from" in note and "limit 50%" in note for note in line.notes)


def test_first_stage_fails_when_the_baseline_is_no_rung() -> None:
    answer = line_of(ladder((2, 4), lambda c: 2.0), baseline_is_rung=False).max_concurrency
    assert (answer.value, answer.relation, answer.passed, answer.failed) == (2, "<", None, 2)
    assert answer.text.startswith("< 2 (first stage fails)")


def test_nothing_failed() -> None:
    answer = line_of(ladder((8, 32, 128), lambda c: 1.1, n=800)).max_concurrency
    assert (answer.value, answer.relation, answer.failed, answer.high) == (128, ">=", None, None)
    assert answer.text == "≥ 128 (highest tested)"


def test_each_criterion_has_its_own_limit() -> None:
    stages = [measured(1, "baseline"), measured(5, ttft=2.0), measured(10, ttft=3.0, tpot=1.1), measured(20, tpot=2.0)]
    limits = {one.metric: limit.text for one, limit in line_of(stages).per_criterion}
    assert limits["ttft_ms"].startswith("1 ")
    assert limits["tpot_ms"].startswith("10 (10–19): passed 10, failed 20 on TPOT p50")
    assert limits["failure_pct"] == "≥ 20 (highest tested)"


def test_a_curve_that_recovers_keeps_its_first_crossing_and_says_so() -> None:
    line = line_of(ladder((5, 10, 20), lambda c: 2.0 if c == 10 else 1.1))
    assert (line.max_concurrency.passed, line.max_concurrency.failed) == (5, 10)
    assert any("20 would pass after 10 failed; the first crossing is kept" in doubt for doubt in line.doubts)
    assert line.confidence == "low"


def test_faster_under_load_is_allowed_and_said() -> None:
    line = line_of(ladder((5, 10), lambda c: 0.8 if c == 5 else 2.0))
    assert (line.max_concurrency.passed, line.max_concurrency.failed) == (5, 10)
    assert any("5 is faster than the baseline" in note for note in line.notes)


def test_the_class_that_breaks_the_limit_is_named() -> None:
    cols = columns(concurrency=5)
    slow = cols["class"] == "long"
    wait = cols["t_first_ns"] - cols["t_sent_ns"]
    cols["t_first_ns"] = cols["t_sent_ns"] + np.where(slow, 5.0, 1.0) * wait
    stages = [measured(1, "baseline"), MeasuredStage(5, "ladder", RequestTable.from_columns(cols))]
    assert line_of(stages).max_concurrency.limited_by == LimitedBy("ttft_ms", "p50", "long")


def test_drift_gives_no_verdict() -> None:
    line = line_of(ladder((5, 10), lambda c: 1.1, closing=1.2))
    assert (line.verdict, line.max_concurrency.value, line.max_concurrency.relation) == ("drifted", None, None)
    assert line.drift is not None and line.drift.pct == pytest.approx(20, abs=3)
    assert line.max_concurrency.text.startswith("none: drifted: the closing baseline differs by +")


def test_a_closing_baseline_among_timeouts_is_drift() -> None:
    stages = ladder((5,), lambda c: 1.1, closing=None)
    cols = fail(columns(seed=2), np.arange(400) % 10 < 7, "timeout")
    line = line_of([*stages, MeasuredStage(1, "closing", RequestTable.from_columns(cols))])
    assert line.max_concurrency.text == "none: drifted: the closing baseline timed out"


@pytest.mark.parametrize(("n", "noise"), [(4, 0.02), (24, 0.6)])
def test_a_difference_that_may_be_chance_is_a_doubt_and_no_drift(n: int, noise: float) -> None:
    stages = [measured(1, "baseline", n=n, noise=noise), *ladder((5, 10), lambda c: 1.1, closing=None)[1:]]
    line = line_of([*stages, measured(1, "closing", n=n, noise=noise, ttft=1.15, tpot=1.15, seed=7)])
    assert line.drift is not None and abs(line.drift.pct) > 10 and not line.drift.beyond_chance
    assert line.verdict != "drifted" and any("may be chance" in doubt for doubt in line.doubts)


def test_a_small_difference_is_no_drift() -> None:
    line = line_of(ladder((5, 10), lambda c: 1.1, closing=1.05))
    assert (line.verdict, line.confidence) == ("ok", "normal")


@pytest.mark.parametrize("checks", [(), (INVALID,)])
def test_drift_that_was_not_checked_is_a_doubt(checks: tuple[Check, ...]) -> None:
    stages = ladder((5, 10), lambda c: 1.1, closing=None)
    stages += [replace(measured(1, "closing"), checks=checks)] if checks else []
    line = line_of(stages)
    assert (line.verdict, line.confidence) == ("ok", "low")
    assert any("drift was not checked" in doubt for doubt in line.doubts)


def test_an_invalid_baseline_gives_no_verdict() -> None:
    stages = ladder((5,), lambda c: 1.1)
    stages[0] = replace(stages[0], checks=(INVALID,))
    line = line_of(stages)
    assert line.verdict == "baseline_unstable"
    assert line.max_concurrency.text == "none: baseline unstable: the opening one: the load generator was late"


@pytest.mark.parametrize("again", [INVALID, replace(INVALID, reason="it was late again")])
def test_a_reason_is_said_once_and_of_which_baseline(again: Check) -> None:
    """A baseline that does not count is measured once more."""
    stages = ladder((5,), lambda c: 1.1)
    opening = [replace(stages[0], checks=(check,)) for check in (INVALID, again)]
    text = line_of([*opening, *stages[1:]]).max_concurrency.text
    closing = [replace(stages[0], kind="closing", checks=(check,)) for check in (INVALID, again)]
    (doubt,) = line_of([*stages[:2], *closing]).doubts
    for said, name in ((text, "opening"), (doubt, "closing")):
        assert name in said and said.count(INVALID.reason) == 1
        assert said.count("late again") == (again is not INVALID)


@pytest.mark.parametrize("closed", [True, False], ids=["a ladder of 1", "cancelled after the baseline"])
def test_a_run_of_nothing_but_baselines_says_that_nothing_else_was_measured(closed: bool) -> None:
    stages = [measured(1, "baseline"), *([measured(1, "closing", seed=3)] if closed else [])]
    line = line_of(stages)
    assert line.verdict == "no_valid_stage"
    assert line.max_concurrency.text == "none: no stage beyond the baseline was measured"


def test_a_failing_baseline_gives_no_verdict() -> None:
    cols = fail(columns(), slice(0, 20), "http_error")
    stages = ladder((5,), lambda c: 1.1)
    stages[0] = MeasuredStage(1, "baseline", RequestTable.from_columns(cols))
    assert line_of(stages).verdict == "baseline_unstable"


def test_a_target_that_cannot_be_reached_gives_no_verdict() -> None:
    cols = fail(columns(n=20), slice(None), "connect_error")
    stage = stage_of(cols, 1, "baseline")
    line = line_of([MeasuredStage(1, "baseline", stage.table, check_stage(stage, None))])
    assert line.verdict == "baseline_unstable"
    assert "connect_error" in line.max_concurrency.text


def test_no_valid_stage() -> None:
    stages = ladder((5, 10), lambda c: 1.1)
    stages[1:3] = [replace(one, checks=(INVALID,)) for one in stages[1:3]]
    line = line_of(stages)
    assert (line.verdict, line.max_concurrency.relation) == ("no_valid_stage", None)
    assert line.max_concurrency.text.startswith("none: no valid stage")


def test_an_invalid_stage_takes_no_part() -> None:
    stages = ladder((5, 10, 20), lambda c: 3.0 if c == 10 else 1.1)
    stages[2] = replace(stages[2], checks=(INVALID,))
    line = line_of(stages)
    assert (line.max_concurrency.value, line.max_concurrency.relation) == (20, ">=")
    assert any(note.startswith("10 takes no part: the load generator was late") for note in line.notes)


def test_an_invalid_stage_above_the_last_pass_is_said() -> None:
    stages = ladder((5, 10), lambda c: 1.1)
    stages[2] = replace(stages[2], checks=(INVALID,))
    assert line_of(stages).max_concurrency.text == "≥ 5 (highest valid stage; 10 took no part)"


def test_a_growing_queue_beyond_the_limit_stays_evidence() -> None:
    stages = ladder((5, 10), lambda c: 3.0 if c == 10 else 1.1)
    stages[2] = replace(stages[2], checks=(GROWING,))
    line = line_of(stages)
    assert (line.max_concurrency.passed, line.max_concurrency.failed) == (5, 10)
    (note,) = [note for note in line.notes if note.startswith("10 is invalid")]
    assert "only as evidence that the limit is passed" in note and GROWING.reason in note


def test_a_growing_queue_within_the_limit_proves_nothing() -> None:
    stages = ladder((5, 10), lambda c: 1.1)
    stages[2] = replace(stages[2], checks=(GROWING,))
    answer = line_of(stages).max_concurrency
    assert (answer.value, answer.relation) == (5, ">=")


def test_a_stage_at_the_limit_is_unsure_and_not_passed() -> None:
    line = line_of(ladder((5, 10, 20), lambda c: {5: 1.1, 10: 1.5, 20: 3.0}[c], noise=0.1))
    answer = line.max_concurrency
    assert {level.concurrency: level.within for level in line.levels} == {
        1: "within",
        5: "within",
        10: "unsure",
        20: "beyond",
    }
    assert (answer.passed, answer.failed, answer.unsure) == (5, 20, (10,))
    assert answer.text == "5 (5–19): passed 5, 10 unsure, failed 20 on TTFT p50"


def test_exactly_at_the_limit_without_noise_is_unsure_not_a_coin_toss() -> None:
    line = line_of(ladder((5,), lambda c: 1.5, noise=0.0))
    assert line.levels[1].within == "unsure"


@pytest.mark.parametrize(("slowdown", "passed"), [(1.495, 5), (1.505, 1)])
def test_an_unsure_stage_decides_by_its_estimate_after_three_measurements(slowdown: float, passed: int) -> None:
    stages = [
        *ladder((5,), lambda c: slowdown, noise=0.001),
        *(measured(5, "refine", ttft=slowdown, noise=0.001, seed=s) for s in (2, 3)),
    ]
    line = line_of(stages)
    assert line.levels[1].within == "unsure"
    assert line.max_concurrency.passed == passed
    assert any("close call" in doubt for doubt in line.doubts)


def test_measurements_of_one_level_are_pooled() -> None:
    few = [measured(1, "baseline", n=4000, noise=0.2), measured(5, ttft=1.45, n=150, noise=0.2)]
    more = [*few, measured(5, "refine", ttft=1.45, n=4000, noise=0.2, seed=4)]
    once, again = line_of(few).levels[1], line_of(more).levels[1]
    assert (once.within, once.measurements) == ("unsure", 1)
    assert (again.within, again.measurements) == ("within", 2)


def test_all_requests_failed() -> None:
    dead = with_outcome(64, slice(None), "http_error", n=512)
    stage = stage_of(fail(columns(concurrency=64, n=512), slice(None), "http_error"), 64)
    stages = [*ladder((8, 32), lambda c: 1.1), replace(dead, checks=check_stage(stage, None))]
    answer = line_of(stages).max_concurrency
    assert (answer.value, answer.low, answer.high, answer.failed) == (32, 32, 63, 64)
    assert answer.text == "32 (32–63): passed 32, all requests failed at 64"
    assert answer.limited_by == LimitedBy("failure_pct", "mean")


@pytest.mark.parametrize(("failed", "passes"), [(3, True), (8, False)])
def test_the_failure_share_is_always_judged(failed: int, passes: bool) -> None:
    stages = [*ladder((5,), lambda c: 1.1), with_outcome(10, slice(0, failed), "refused", n=400)]
    answer = line_of(stages).max_concurrency
    assert answer.passed == (10 if passes else 5)
    if not passes:
        assert answer.limited_by is not None and answer.limited_by.metric == "failure_pct"


def test_a_failure_criterion_of_its_own_replaces_the_default() -> None:
    stages = [*ladder((5,), lambda c: 1.1), with_outcome(10, slice(0, 8), "refused", n=400)]
    assert (
        line_of(stages, (*DEFAULT_CRITERIA, Criterion("failure_pct", "mean", max_value=5))).max_concurrency.passed == 10
    )


def test_timeouts_are_beyond_never_fast() -> None:
    stages = [*ladder((5,), lambda c: 1.0), with_outcome(10, slice(0, 300), "timeout", n=400, ttft=0.5)]
    line = line_of(stages)
    assert line.max_concurrency.failed == 10
    ttft = line.levels[2].assessments[0]
    assert ttft.degradation is not None and np.isposinf(ttft.degradation.pct)


def test_an_absolute_limit() -> None:
    criterion = Criterion("ttft_ms", "p99", max_value=600)
    line = line_of(ladder((5, 10), lambda c: 1.5 if c == 5 else 3.0), (criterion,))
    assert (line.max_concurrency.passed, line.max_concurrency.failed) == (5, 10)
    assert any("limit 600 ms" in note for note in line.notes)


def test_an_absolute_limit_that_the_baseline_breaks() -> None:
    answer = line_of(ladder((5, 10), lambda c: 1.0), (Criterion("ttft_ms", "p50", max_value=20),)).max_concurrency
    assert (answer.value, answer.relation) == (1, "<")


def test_few_requests_lower_the_confidence() -> None:
    line = line_of(ladder((5,), lambda c: 3.0, n=40, noise=0.01))
    assert line.confidence == "low"
    assert any(doubt.startswith("few requests: the baseline has 40") for doubt in line.doubts)


def test_a_baseline_of_one_request_is_allowed() -> None:
    criteria = (DEFAULT_CRITERIA[0],)
    one = RequestTable.from_columns({"class": ["mid"], "outcome": ["ok"], "t_sent_ns": [0], "t_first_ns": [100e6]})
    line = line_of([MeasuredStage(1, "baseline", one), measured(5, ttft=2.0)], criteria)
    assert (line.max_concurrency.value, line.confidence) == (1, "low")


def test_a_metric_that_nothing_has_is_said_and_does_not_decide() -> None:
    stages = ladder((5,), lambda c: 1.1)
    criteria = (DEFAULT_CRITERIA[0], Criterion("itl_ms", "p50", max_degradation_pct=50))
    line = line_of(stages, criteria)
    assert line.max_concurrency.passed == 5
    assert "ITL p50 could not be judged: no stage has it" in line.notes


def test_the_same_seed_gives_the_same_answer() -> None:
    stages = ladder((5, 10, 20, 30), linear(14.0), noise=0.2)
    assert line_of(stages) == line_of(list(reversed(stages)))


def test_a_mix_without_weights_is_refused() -> None:
    with pytest.raises(ValueError, match="weight"):
        find_load_line(ladder((5,), lambda c: 1.1), DEFAULT_CRITERIA, {}, 1)


@settings(max_examples=25, deadline=None)
@given(
    levels=st.sets(st.integers(2, 64), min_size=1, max_size=6),
    slowdowns=st.lists(st.floats(0.7, 4.0), min_size=6, max_size=6),
    noise=st.sampled_from([0.0, 0.05, 0.3]),
)
def test_whatever_the_curve_the_answer_is_coherent(levels: set[int], slowdowns: list[float], noise: float) -> None:
    ordered = sorted(levels)
    by_level = dict(zip(ordered, slowdowns, strict=False))
    answer = line_of(ladder(ordered, by_level.__getitem__, n=150, noise=noise), resamples=200).max_concurrency
    assert answer.relation in ("=", ">=")
    assert answer.value is not None and answer.value == answer.passed
    assert answer.low is not None and answer.low <= answer.value
    if answer.relation == "=":
        assert answer.high is not None and answer.failed is not None
        assert answer.value <= answer.high and answer.value < answer.failed
        assert answer.estimate is None or answer.value <= answer.estimate <= answer.failed
