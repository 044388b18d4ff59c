from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from campaigns.analysis.validity import Check, StageInput, check_stage, invalid_checks, is_valid, warnings
from tests.analysis.tables import MIX, columns, fail, stage, stage_of


def check(name: str, one: StageInput, baseline: StageInput | None = None) -> Check:
    return next(found for found in check_stage(one, baseline) if found.name == name)


def rising(concurrency: int, n: int, growth: float) -> dict[str, Any]:
    """A stage whose TTFT grows by the share `growth` from first to last request."""
    cols = columns(concurrency=concurrency, n=n)
    shift = (cols["t_first_ns"] - cols["t_sent_ns"]) * growth * np.linspace(0, 1, n)
    for name in ("t_first_ns", "t_last_ns", "t_end_ns"):
        cols[name] = cols[name] + shift
    return cols


def test_a_clean_stage_passes_every_check() -> None:
    baseline = stage(1, "baseline")
    asked = {kind.name: float(kind.output_tokens) for kind in MIX}
    one = stage(8, ttft=1.3)
    client: dict[str, Any] = {
        "in_flight_mean": 7.9,
        "lateness_p99_ms": 0.4,
        "receive_delay_p99_ms": 0.9,
        "cpu_share": 0.2,
    }
    one = replace(one, **client, planned_output_tokens=asked, timeout_s=600.0)
    found = check_stage(one, baseline)
    assert is_valid(found)
    assert not warnings(found)
    assert {c.name for c in found if c.ok is None} == {"prefix_cache"}
    assert all(not c.reason for c in found)


def test_a_pool_below_the_concurrency_is_client_limited() -> None:
    found = check("in_flight", replace(stage(8), in_flight_mean=5.0))
    assert (found.ok, found.severity, found.understates) == (False, "invalid", False)
    assert "client-limited: only 5.0 of 8" in found.reason


def test_in_flight_is_read_from_the_rows_when_the_generator_does_not_say() -> None:
    assert check("in_flight", stage(8)).ok
    assert not check("in_flight", replace(stage(8), concurrency=16)).ok


def test_low_in_flight_because_requests_are_refused_still_proves_beyond() -> None:
    cols = fail(columns(concurrency=8), slice(0, 40), "refused")
    found = check("in_flight", stage_of(cols, 8, in_flight_mean=5.0))
    assert found.understates


def test_littles_law_holds_on_a_window_shorter_than_its_requests() -> None:
    """Two slots run 10 s requests, two run 90 s ones that never complete in the window of 60 s: completions times mean
    time would say 2 in flight, where 4 were."""
    short = np.arange(0, 60, 10.0)
    sent_s = np.concatenate([short, short, [0.0, 0.0]])
    took_s = np.concatenate([np.full(12, 10.0), [90.0, 90.0]])
    cols = {"outcome": ["ok"] * 14, "t_sent_ns": sent_s * 1e9, "t_end_ns": (sent_s + took_s) * 1e9}
    one = replace(stage_of(cols, 4), window_s=60.0, in_flight_mean=4.0)
    assert check("littles_law", one).value == pytest.approx(0)


def test_littles_law_finds_slots_without_requests() -> None:
    found = check("littles_law", replace(stage(8), in_flight_mean=12.0))
    assert (found.ok, found.severity) == (False, "invalid")
    assert "Little's law is off by" in found.reason


def test_littles_law_only_warns_on_a_short_window() -> None:
    one = stage(8)
    found = check("littles_law", replace(one, window_s=2.0, in_flight_mean=12.0))
    assert (found.ok, found.severity) == (False, "warning")


@pytest.mark.parametrize(("late_ms", "ok"), [(4.9, True), (5.0, False), (None, None)])
def test_lateness(late_ms: float | None, ok: bool | None) -> None:
    found = check("lateness", replace(stage(2), lateness_p99_ms=late_ms))
    assert (found.ok, found.severity) == (ok, "invalid")


def test_lateness_of_a_few_only_warns_where_medians_are_judged() -> None:
    few = check("lateness", replace(stage(2), lateness_p99_ms=9.0, lateness_judged_ms=0.1))
    assert (few.ok, few.severity) == (False, "warning") and "medians do not" in few.reason
    most = check("lateness", replace(stage(2), lateness_p99_ms=9.0, lateness_judged_ms=6.0))
    assert (most.ok, most.severity) == (False, "invalid")


@pytest.mark.parametrize(("late_ms", "ok"), [(19.0, True), (20.0, False), (None, None)])
def test_a_client_that_reads_late_is_the_limit(late_ms: float | None, ok: bool | None) -> None:
    found = check("receiving", replace(stage(2), receive_delay_p99_ms=late_ms))
    assert (found.ok, found.severity, found.understates) == (ok, "invalid", False)
    assert ("the tester is the limit" in found.reason, "driver" in found.remedy) == (ok is False, ok is False)


@pytest.mark.parametrize(("share", "ok"), [(0.79, True), (0.8, False), (None, None)])
def test_client_cpu(share: float | None, ok: bool | None) -> None:
    assert check("client_cpu", replace(stage(2), cpu_share=share)).ok is ok


@pytest.mark.parametrize(("kind", "n", "ok"), [("baseline", 90, False), ("ladder", 60, True), ("ladder", 20, False)])
def test_few_requests_warn_and_never_invalidate(kind: Any, n: int, ok: bool) -> None:
    found = check("enough_requests", stage(1, kind, n=n))
    assert (found.ok, found.severity) == (ok, "warning")


def test_nothing_answered_says_why() -> None:
    cols = fail(columns(concurrency=4, n=20), slice(None), "connect_error")
    cols["measured"][:] = True
    found = check("completed", stage_of(cols, 4))
    assert (found.ok, found.severity, found.understates) == (False, "invalid", True)
    assert found.reason == "all 20 requests failed (20 connect_error)"


def test_an_empty_stage_is_invalid_and_crashes_nothing() -> None:
    found = check_stage(stage_of({"outcome": []}, 4), stage(1, "baseline"))
    assert [c.reason for c in invalid_checks(found)] == ["no request was measured"]


@pytest.mark.parametrize(("cut", "ok"), [(1, True), (10, False)])
def test_requests_cut_off_at_the_drain_limit(cut: int, ok: bool) -> None:
    found = check("cut_off", stage_of(fail(columns(n=200), slice(100, 100 + cut), "cancelled"), 1))
    assert (found.ok, found.understates) == (ok, not ok)


def test_a_close_time_out_is_a_warning() -> None:
    assert not check("timeout", replace(stage(1), timeout_s=1.0)).ok
    assert check("timeout", replace(stage(1), timeout_s=60.0)).ok


def lengths(values: list[float], kind: Any = "ladder") -> StageInput:
    n = len(values)
    sent = np.arange(n) * 1e9
    cols = {"outcome": ["ok"] * n, "t_sent_ns": sent, "t_first_ns": sent + 1e8, "t_last_ns": sent + 9e8}
    return stage_of({**cols, "t_end_ns": sent + 9e8, "output_tokens": values}, 1, kind)


def test_shorter_outputs_than_the_baseline_are_not_alike() -> None:
    found = check("output_lengths", lengths([4, 45, 328, 698, 892]), lengths([1000, 1000, 1000], "baseline"))
    assert (found.ok, found.severity, found.understates) == (False, "invalid", False)
    assert "gave 328 output tokens at the median, 1000 in the baseline" in found.reason


def test_a_server_that_ends_early_everywhere_keeps_its_load_line() -> None:
    baseline = replace(lengths([300.0] * 20, "baseline"), planned_output_tokens={"default": 1000.0})
    one = replace(lengths([305.0] * 20), planned_output_tokens={"default": 1000.0})
    found = check_stage(one, baseline)
    assert "output_lengths" not in {c.name for c in invalid_checks(found)}
    assert "class default gave 305 output tokens at the median, 1000 asked" in [c.reason for c in warnings(found)]


def test_drawn_lengths_that_differ_by_chance_are_alike() -> None:
    rng = np.random.default_rng(6)
    few, many = rng.lognormal(5, 1, 12), rng.lognormal(5, 1, 200)
    assert abs(np.median(few) / np.median(many) - 1) > 0.1
    assert check("output_lengths", lengths(list(few)), lengths(list(many), "baseline")).ok


def cached(share: float, input_tokens: float = 2000, **fields: Any) -> StageInput:
    cols = columns(n=200)
    cols["input_tokens"] = np.full(200, input_tokens)
    cols["cached_tokens"] = np.full(200, share * input_tokens)
    return stage_of(cols, 1, **fields)


def test_replayed_prompts_are_invalid() -> None:
    found = check("prefix_cache", cached(0.9875))
    assert (found.ok, found.severity) == (False, "invalid")


def test_a_short_prompt_replayed_whole_is_invalid() -> None:
    assert not check("prefix_cache", cached(0.95, input_tokens=86)).ok


def test_the_chat_template_is_no_replay() -> None:
    assert check("prefix_cache", cached(32 / 86, input_tokens=86)).ok


def test_a_shared_prefix_that_was_meant_is_fine() -> None:
    assert check("prefix_cache", cached(0.5, intended_cached_share=0.5)).ok
    assert not check("prefix_cache", cached(0.6, intended_cached_share=0.5)).ok


def test_mixed_token_sources_are_a_warning_with_counts() -> None:
    cols = columns(n=100)
    cols["token_source"][:30] = "events"
    found = check("token_source", stage_of(cols, 1))
    assert (found.ok, found.severity) == (False, "warning")
    assert "30 events" in found.reason


def test_an_answer_that_was_not_streamed_is_invalid() -> None:
    cols = columns(n=100)
    cols["t_first_ns"] = np.full(100, np.nan)
    found = check("streamed", stage_of(cols, 1))
    assert (found.ok, found.severity) == (False, "invalid")


def test_an_answer_in_one_piece_is_a_warning() -> None:
    cols = columns(n=100)
    cols["t_first_ns"] = cols["t_last_ns"]
    found = check("streamed", stage_of(cols, 1))
    assert (found.ok, found.severity) == (False, "warning")


def test_a_growing_queue_is_the_finding_that_demand_exceeds_capacity() -> None:
    found = check("growing", stage_of(rising(4, 400, 1.0), 4))
    assert (found.ok, found.severity, found.understates) == (False, "invalid", True)
    assert "demand exceeds capacity at 4" in found.reason


def test_a_moving_baseline_is_not_steady() -> None:
    found = check("steady", stage_of(rising(1, 400, 1.0), 1, "baseline"))
    assert (found.ok, found.severity, found.understates) == (False, "invalid", False)


def test_a_stage_that_is_still_warming_up_is_not_steady_and_proves_nothing() -> None:
    found = check("steady", stage_of(rising(4, 400, -0.6), 4))
    assert (found.ok, found.understates) == (False, False)


def test_a_trend_too_small_to_matter_is_steady() -> None:
    assert check("steady", stage_of(rising(4, 400, 0.05), 4)).ok


def test_steady_noise_is_rarely_a_trend() -> None:
    stages = (stage(4, n=200, noise=0.3, seed=seed) for seed in range(60))
    assert sum(not is_valid(check_stage(one, None)) for one in stages) <= 3


def test_a_window_of_few_request_times_cannot_show_a_trend() -> None:
    assert check("steady", stage(50, n=150)).ok is None


def test_a_cold_first_wave_is_flagged() -> None:
    cols = columns(concurrency=10, n=200)
    for name in ("t_first_ns", "t_last_ns", "t_end_ns"):
        cols[name][:10] += 40e9
    found = check("warm", stage_of(cols, 10))
    assert (found.ok, found.severity) == (False, "warning")


def test_users_who_think_are_not_held_back_by_the_client() -> None:
    assert check("in_flight", replace(stage(8), in_flight_mean=5.0, users_think=True)).ok is None
