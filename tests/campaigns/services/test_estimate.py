"""What a plan costs, counted by hand."""

from __future__ import annotations

from typing import Any

import pytest

from campaigns.services.estimate import duration_words, estimate
from campaigns.services.inputs import CampaignInput, decode


def plan(**changes: Any) -> CampaignInput:
    return decode(CampaignInput, {"name": "c", "target": 1, "mix": 1, **changes})


def test_the_default_plan() -> None:
    # Opening and closing baseline, and five more stages: 7 windows of 300 s behind 30 s of warm-up.
    cost = estimate(plan())
    assert (cost.stages, cost.concurrency_max) == (7, 50)
    assert cost.duration_s_low == 7 * 330
    # Between 30 and 50: 40, 35 or 45, then neighbours within 5% take two more at most.
    assert 3 <= cost.refine_stages_max <= 5
    assert cost.duration_s_high == 7 * (330 + 120) + min(1800, cost.refine_stages_max * 450)
    assert cost.text == f"7 stages and up to {cost.refine_stages_max} to refine, 38 min to 82 min; " + (
        "up to 50 requests at once"
    )


def test_a_ladder_that_starts_high_gets_a_baseline_of_its_own() -> None:
    assert estimate(plan(stages=[8, 16])).stages == 4
    assert estimate(plan(stages=[2, 16])).stages == 3
    assert estimate(plan(stages=[1])).stages == 2


def test_nothing_is_refined_when_it_is_off_or_there_is_no_gap() -> None:
    assert estimate(plan(refine={"enabled": False})).refine_stages_max == 0
    assert estimate(plan(stages=[1, 2, 3])).refine_stages_max == 0
    assert estimate(plan(refine={"budget_s": 0})).refine_stages_max == 0


def test_repeats_multiply_the_stages_but_not_the_users() -> None:
    once, thrice = estimate(plan()), estimate(plan(repeats=3))
    assert (thrice.stages, thrice.concurrency_max) == (3 * once.stages, once.concurrency_max)
    assert thrice.duration_s_low == 3 * once.duration_s_low


def test_a_long_baseline_counts() -> None:
    assert estimate(plan(baseline_s=600)).duration_s_low > estimate(plan()).duration_s_low


@pytest.mark.parametrize(
    ("seconds", "words"), [(0, "0 s"), (89, "89 s"), (120, "2 min"), (5399, "1 h 30 min"), (7500, "2 h 05 min")]
)
def test_durations_in_words(seconds: float, words: str) -> None:
    assert duration_words(seconds) == words
