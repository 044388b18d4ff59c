from __future__ import annotations

import dataclasses

import pytest

from workers.simulator.mixes import MIXES, Mix, TrafficClass
from workers.simulator.scenarios import SCENARIOS
from workers.simulator.truth import DEGRADATION_LIMIT, Truth, find_truth, truth_document

HEALTHY = SCENARIOS["healthy"]
LADDER = [1, 4, 8, 16, 32]


@pytest.fixture(scope="module")
def small() -> Truth:
    return find_truth(HEALTHY, MIXES["small"], LADDER, 0.02, 1)


def test_the_limit_follows_from_the_cost_model_alone() -> None:
    """When only sequences cost (no context, no prefill, no front end), TPOT at C is a + b × C: the limit is known."""
    cost = dataclasses.replace(
        HEALTHY.cost,
        kv_bytes_per_token=0.0,
        flops_per_s=1e30,
        cpu_s_per_sequence=0.0005,
        cpu_s_per_request=0.0,
    )
    scenario = dataclasses.replace(HEALTHY, cost=cost)
    a, b = cost.step_s(1, 0, 0), cost.cpu_s_per_sequence
    expected = int((1.5 * (a + b) - a) / b)
    truth = find_truth(scenario, Mix((TrafficClass("only", 1, 8, 50),)), [1, 64], 0.0, 1)
    assert truth.limits["tpot_ms"] == expected


def test_the_healthy_engine_gives_out_inside_the_ladder_by_its_decoding(small: Truth) -> None:
    assert 16 < small.limit < 32
    assert small.limited_by == "tpot_ms"


def test_the_limit_is_exact_to_one_client(small: Truth) -> None:
    worst = {stage.concurrency: max(stage.degradation.values()) for stage in small.stages}
    assert worst[1] == 0.0
    assert worst[small.limit] <= DEGRADATION_LIMIT < worst[small.limit + 1]


def test_tpot_degrades_smoothly(small: Truth) -> None:
    tpot = [stage.degradation["tpot_ms"] for stage in small.stages]
    assert tpot == sorted(tpot)


def test_a_lone_client_sees_ordinary_latencies(small: Truth) -> None:
    assert all(10 < value < 100 for value in small.stages[0].p50["ttft_ms"].values())
    assert all(8 < value < 10.5 for value in small.stages[0].p50["tpot_ms"].values())


def test_a_seed_repeats_the_truth(small: Truth) -> None:
    assert find_truth(HEALTHY, MIXES["small"], LADDER, 0.02, 1) == small


def test_seeds_agree_about_the_limit(small: Truth) -> None:
    assert abs(find_truth(HEALTHY, MIXES["small"], LADDER, 0.02, 2).limit - small.limit) <= 2


def test_an_easy_ladder_gives_a_lower_bound() -> None:
    mix = MIXES["small"]
    limit = truth_document(HEALTHY, mix, find_truth(HEALTHY, mix, [2, 4], 0.02, 1))["limit"]
    assert (limit["max_concurrency"], limit["relation"], limit["limited_by"]) == (4, ">=", None)


def test_answers_of_one_token_have_no_tpot() -> None:
    truth = find_truth(HEALTHY, Mix((TrafficClass("one", 1, 8, 1),)), [1, 2], 0.02, 1)
    assert truth.stages[0].p50["tpot_ms"] == {}
    assert "tpot_ms" not in truth.stages[1].degradation
