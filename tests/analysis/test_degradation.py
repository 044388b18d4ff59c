from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from campaigns.analysis.criteria import Criterion
from campaigns.analysis.degradation import Degradation, degradation
from campaigns.analysis.requests import RequestTable
from tests.analysis.tables import WEIGHTS, columns, fail, table

TTFT = Criterion("ttft_ms", "p50", max_degradation_pct=50)
TPOT = Criterion("tpot_ms", "p50", max_degradation_pct=50)


def degraded(stage: RequestTable, baseline: RequestTable, criterion: Criterion = TTFT, **options: Any) -> Degradation:
    found = degradation(stage, baseline, criterion, options.pop("weights", WEIGHTS), seed=3, **options)
    assert found is not None
    return found


@pytest.mark.parametrize("stat", ["p50", "p90", "p99", "mean"])
def test_finds_the_true_ratio(stat: str) -> None:
    found = degraded(table(n=2000, ttft=1.4, seed=2), table(n=2000), Criterion("ttft_ms", stat, max_degradation_pct=50))
    assert found.pct == pytest.approx(40, abs=4)
    assert found.low <= found.pct <= found.high
    assert found.high - found.low < 12


def test_without_noise_it_is_exact() -> None:
    found = degraded(table(ttft=1.25, noise=0), table(noise=0))
    assert (found.pct, found.low, found.high) == pytest.approx((25, 25, 25))
    assert found.per_class == pytest.approx({"short": 25, "mid": 25, "long": 25})


def test_a_change_of_composition_is_no_change_of_speed() -> None:
    stage, baseline = table(n=1200, ttft=1.3, seed=2, noise=0), table(n=1200, noise=0)
    keep = (stage.class_index == stage.class_names.index("short")) | (np.arange(len(stage)) % 4 == 0)
    mostly_short = stage.select(keep)
    assert np.nanmedian(mostly_short.ttft_ms) < np.nanmedian(baseline.ttft_ms)
    assert degraded(mostly_short, baseline).pct == pytest.approx(30)


def test_classes_are_combined_by_weighted_geometric_mean() -> None:
    cols = columns(noise=0)
    slow = cols["class"] == "long"
    cols["t_first_ns"] = np.where(slow, cols["t_sent_ns"] + 600e6, cols["t_first_ns"])
    found = degraded(RequestTable.from_columns(cols), table(noise=0))
    assert found.per_class == pytest.approx({"short": 0, "mid": 0, "long": 100}, abs=1e-6)
    assert found.pct == pytest.approx(100 * (2**0.3 - 1))


def test_a_class_without_data_is_named_and_the_other_weights_scaled() -> None:
    stage = table(ttft=1.2, noise=0)
    without = stage.select(stage.class_index != stage.class_names.index("long"))
    found = degraded(without, table(noise=0))
    assert found.left_out == ("long",)
    assert found.pct == pytest.approx(20)


def test_no_data_at_all_is_none() -> None:
    nothing = RequestTable.from_columns(fail(columns(), slice(None), "http_error"))
    assert degradation(nothing, table(), TTFT, WEIGHTS, seed=1) is None
    assert degradation(table(), nothing, TTFT, WEIGHTS, seed=1) is None


def test_timeouts_make_a_percentile_infinite_never_small() -> None:
    stage = RequestTable.from_columns(fail(columns(n=400), np.arange(400) % 10 < 6, "timeout"))
    found = degraded(stage, table())
    assert np.isposinf(found.pct)
    assert np.isposinf(found.high)


def test_a_few_timeouts_move_p99_but_not_p50() -> None:
    stage = RequestTable.from_columns(fail(columns(n=400), np.arange(400) % 20 == 0, "timeout"))
    p99 = degraded(stage, table(), Criterion("ttft_ms", "p99", max_degradation_pct=50))
    assert np.isposinf(p99.pct)
    assert degraded(stage, table()).pct == pytest.approx(0, abs=3)


def test_faster_is_negative() -> None:
    assert degraded(table(ttft=0.8, noise=0), table(noise=0)).pct == pytest.approx(-20)


def test_the_same_seed_gives_the_same_interval() -> None:
    once, again = (degraded(table(ttft=1.3, seed=2), table()) for _ in range(2))
    assert (once.low, once.high) == (again.low, again.high)


def test_gaps_between_chunks_are_compared_over_requests() -> None:
    def gaps(ms: float) -> RequestTable:
        return RequestTable.from_columns({"outcome": ["ok"] * 50, "itl_ns": [[ms * 1e6] * 9] * 50})

    found = degraded(gaps(15), gaps(10), Criterion("itl_ms", "p99", max_degradation_pct=50), weights={"default": 1})
    assert found.pct == pytest.approx(50)


def test_the_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    covered = 0
    for seed in range(100):
        stage = table(n=120, ttft=1.3, noise=0.2, seed=1000 + seed)
        found = degraded(stage, table(n=120, noise=0.2, seed=2000 + seed), resamples=500)
        covered += found.low <= 30 <= found.high
    assert covered >= 88


def test_an_alternating_slow_phase_widens_the_interval() -> None:
    """Requests that ran together are alike: 400 of them in two phases tell less than 400 independent ones."""
    cols = columns(n=400, noise=0.05)
    rng = np.random.default_rng(4)
    factor = np.repeat(np.exp(rng.normal(0, 0.3, 20)), 20)
    shuffled = rng.permutation(factor)
    wait = cols["t_first_ns"] - cols["t_sent_ns"]
    together = RequestTable.from_columns(cols | {"t_first_ns": cols["t_sent_ns"] + wait * factor})
    apart = RequestTable.from_columns(cols | {"t_first_ns": cols["t_sent_ns"] + wait * shuffled})
    wide, narrow = degraded(together, table()), degraded(apart, table())
    assert wide.high - wide.low > 1.3 * (narrow.high - narrow.low)


@settings(max_examples=25, deadline=None)
@given(st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_matter(random: Any) -> None:
    cols = columns(n=120, ttft=1.3, noise=0.1, seed=2)
    order = list(range(120))
    random.shuffle(order)
    shuffled = RequestTable.from_columns({name: values[order] for name, values in cols.items()})
    straight = degraded(RequestTable.from_columns(cols), table(n=120), resamples=200)
    other = degraded(shuffled, table(n=120), resamples=200)
    assert (other.pct, other.low, other.high) == pytest.approx((straight.pct, straight.low, straight.high))


@settings(max_examples=25, deadline=None)
@given(factor=st.floats(0.01, 100), criterion=st.sampled_from([TTFT, TPOT]))
def test_the_unit_of_time_does_not_matter(factor: float, criterion: Criterion) -> None:
    def scaled(cols: dict[str, Any]) -> RequestTable:
        return RequestTable.from_columns(
            {name: values * factor if name.endswith("_ns") else values for name, values in cols.items()}
        )

    stage, baseline = columns(n=120, ttft=1.3, tpot=1.1, noise=0.1, seed=2), columns(n=120, noise=0.1)
    plain = degraded(RequestTable.from_columns(stage), RequestTable.from_columns(baseline), criterion, resamples=200)
    other = degraded(scaled(stage), scaled(baseline), criterion, resamples=200)
    assert (other.pct, other.low, other.high) == pytest.approx((plain.pct, plain.low, plain.high), rel=1e-6, abs=1e-6)


@settings(max_examples=40, deadline=None)
@given(
    stage=st.lists(st.floats(1, 1e6), min_size=1, max_size=30),
    baseline=st.lists(st.floats(1, 1e6), min_size=1, max_size=30),
    stat=st.sampled_from(["mean", "p50", "p99"]),
)
def test_the_interval_holds_the_estimate(stage: list[float], baseline: list[float], stat: str) -> None:
    def of(values: list[float]) -> RequestTable:
        sent = np.arange(len(values)) * 1e6
        return RequestTable.from_columns(
            {"outcome": ["ok"] * len(values), "t_sent_ns": sent, "t_first_ns": sent + np.array(values) * 1e6}
        )

    criterion = Criterion("ttft_ms", stat, max_degradation_pct=50)
    found = degraded(of(stage), of(baseline), criterion, weights={"default": 1}, resamples=100)
    assert found.low <= found.pct <= found.high


@pytest.mark.parametrize(
    "bad",
    [
        {"metric": "speed", "max_value": 1},
        {"metric": "ttft_ms", "stat": "p100", "max_value": 1},
        {"metric": "ttft_ms", "stat": "sd", "max_value": 1},
        {"metric": "ttft_ms"},
        {"metric": "ttft_ms", "max_value": 1, "max_degradation_pct": 50},
        {"metric": "ttft_ms", "max_value": 0},
        {"metric": "ttft_ms", "max_degradation_pct": -1},
        {"metric": "failure_pct", "max_degradation_pct": 1},
    ],
)
def test_criteria_that_cannot_be_judged_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        Criterion(**bad)
