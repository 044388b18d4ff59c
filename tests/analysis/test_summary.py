import json
import math
from dataclasses import replace
from typing import Any

import pytest

from campaigns.analysis.criteria import DEFAULT_CRITERIA
from campaigns.analysis.latency import summarize
from campaigns.analysis.summary import RunAnalysis, RunInput, analyse_run
from campaigns.analysis.validity import StageInput
from campaigns.analysis.wire import percentiles_dict, results_dict
from tests.analysis.tables import WEIGHTS, columns, fail, stage, stage_of


def run(stages: list[StageInput]) -> RunAnalysis:
    return analyse_run(RunInput(tuple(stages), DEFAULT_CRITERIA, WEIGHTS, seed=7))


def whole_run() -> list[StageInput]:
    return [
        stage(1, "baseline"),
        *(stage(c, ttft=1 + 0.02 * (c - 1), n=600) for c in (5, 10, 20, 30, 50)),
        stage(1, "closing", seed=9, n=200),
    ]


def assert_plain(value: Any) -> None:
    """JSON without NaN, infinity or numpy types."""
    assert json.loads(json.dumps(value, allow_nan=False)) == value


def test_a_whole_run_in_the_shape_of_the_api() -> None:
    results = results_dict(run(whole_run()))
    assert_plain(results)
    assert results["verdict"] == "ok"
    assert results["max_concurrency"]["relation"] == "="
    assert (results["max_concurrency"]["passed"], results["max_concurrency"]["failed"]) == (20, 30)
    assert results["max_concurrency"]["limited_by"] == {"metric": "ttft_ms", "stat": "p50"}
    assert abs(results["baseline"]["drift_pct"]) < 10
    assert results["baseline"]["opening"]["kind"] == "baseline"
    assert results["baseline"]["closing"]["kind"] == "closing"
    assert [one["concurrency"] for one in results["stages"]] == [1, 5, 10, 20, 30, 50, 1]
    assert [one["within"] for one in results["stages"]] == ["within"] * 4 + ["beyond"] * 2 + [None]
    at_30 = results["stages"][4]["degradation"]
    assert at_30["ttft_ms"]["p50"]["pct"] == pytest.approx(58, abs=4)
    assert set(at_30["tpot_ms"]) == {"p50", "p90", "p99"}
    assert set(results["scaling"]) >= {"lambda", "sigma", "kappa", "peak", "r2"}
    assert [one["metric"] for one in results["per_criterion"]] == ["ttft_ms", "tpot_ms", "failure_pct"]


def test_a_run_in_progress_is_analysed_too() -> None:
    found = run(whole_run()[:3])
    assert (found.line.verdict, found.line.max_concurrency.relation) == ("ok", ">=")
    assert found.scaling is None


def test_a_baseline_alone_has_no_valid_stage() -> None:
    results = results_dict(run(whole_run()[:1]))
    assert results["verdict"] == "no_valid_stage"
    assert_plain(results)


def test_nothing_at_all_is_no_crash() -> None:
    results = results_dict(run([]))
    assert (results["verdict"], results["stages"], results["scaling"]) == ("baseline_unstable", [], None)


def test_a_dead_target_is_null_and_words() -> None:
    cols = fail(columns(n=20), slice(None), "connect_error")
    results = results_dict(run([stage_of(cols, 1, "baseline"), stage_of({"outcome": []}, 5)]))
    assert_plain(results)
    assert results["verdict"] == "baseline_unstable"
    assert results["stages"][0]["invalid_reasons"] == ["all 20 requests failed (20 connect_error)"]
    assert results["stages"][0]["degradation"] == {}


def test_timeouts_are_null_on_the_wire() -> None:
    cols = fail(columns(concurrency=5, n=300), slice(0, 250), "timeout")
    results = results_dict(run([stage(1, "baseline"), stage_of(cols, 5)]))
    assert_plain(results)
    assert results["stages"][1]["within"] == "beyond"
    assert results["stages"][1]["degradation"]["ttft_ms"]["p99"]["pct"] is None
    assert percentiles_dict(summarize([1.0, math.inf])) == {
        "mean": None, "p50": None, "p90": None, "p95": None, "p99": None, "min": 1.0, "max": None, "count": 2,
        "censored": 1,
    }  # fmt: skip


def test_two_measurements_of_a_level_share_its_verdict() -> None:
    stages = [*whole_run()[:6], stage(20, "refine", ttft=1.38, n=600, seed=5)]
    found = run(stages)
    first, second = found.stages[3], found.stages[6]
    assert first.within == second.within == "within"
    assert first.degradations["ttft_ms"]["p50"] == second.degradations["ttft_ms"]["p50"]


def test_an_invalid_stage_keeps_its_own_numbers_and_no_verdict() -> None:
    stages = whole_run()
    stages[2] = replace(stages[2], lateness_p99_ms=20.0)
    one = run(stages).stages[2]
    assert (one.valid, one.within) == (False, None)
    assert one.degradations["ttft_ms"]["p50"].pct == pytest.approx(18, abs=4)


def test_throughput_is_what_was_answered_inside_the_window() -> None:
    found = run(whole_run()).stages[0]
    assert found.percentiles["e2e_ms"] is not None and found.requests_per_s is not None
    assert found.requests_per_s == pytest.approx(1000 / found.percentiles["e2e_ms"].mean, rel=0.02)
