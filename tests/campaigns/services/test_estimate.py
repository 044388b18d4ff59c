"""What a plan costs, counted by hand."""

from __future__ import annotations

from typing import Any

import pytest

from campaigns.services.estimate import duration_words, estimate
from campaigns.services.inputs import CampaignInput, decode


def plan(**changes: Any) -> CampaignInput:
    return decode(CampaignInput, {"name": "c", "target": 1, "mix": 1, **changes})


def test_the_default_plan() -> None:
    # The opening baseline, five stages, and a closing baseline half as long, each behind 30 s of warm-up.
    cost = estimate(plan())
    assert (cost.stages, cost.concurrency_max) == (7, 50)
    assert cost.duration_s_low == 6 * 330 + 180
    # Between 30 and 50 four halvings lead to neighbours within 5%.
    assert cost.refine_stages_max == 4
    assert cost.duration_s_high == cost.duration_s_low + 7 * 120 + 4 * 450
    assert cost.text == "7 stages and up to 4 to refine, 36 min to 80 min; up to 50 requests at once"


def test_every_plan_has_a_baseline_at_either_end() -> None:
    assert estimate(plan(stages=[8, 16])).stages == 4
    assert estimate(plan(stages=[1])).stages == 2


def test_nothing_is_refined_when_it_is_off_or_there_is_no_gap() -> None:
    assert estimate(plan(refine={"enabled": False})).refine_stages_max == 0
    assert estimate(plan(stages=[1, 2, 3])).refine_stages_max == 0
    assert estimate(plan(refine={"budget_s": 0})).refine_stages_max == 0


def test_the_budget_of_refinement_is_the_most_it_adds() -> None:
    cost = estimate(plan(refine={"budget_s": 400}, drain_s=0))
    assert cost.refine_stages_max == 2
    assert cost.duration_s_high - cost.duration_s_low == 400


def test_repeats_climb_the_ladder_again_with_the_same_users() -> None:
    once, thrice = estimate(plan()), estimate(plan(repeats=3))
    assert (thrice.stages, thrice.concurrency_max) == (once.stages + 2 * 6, once.concurrency_max)
    assert thrice.duration_s_low == once.duration_s_low + 2 * 6 * 330


def test_a_long_baseline_counts_at_either_end() -> None:
    assert estimate(plan(baseline_s=600)).duration_s_low == estimate(plan()).duration_s_low + 300 + 150


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 s"),
        (0.5, "0.5 s"),
        (0.04, "0.04 s"),
        (9.97, "10 s"),
        (89, "89 s"),
        (120, "2 min"),
        (5399, "1 h 30 min"),
        (7500, "2 h 05 min"),
    ],
)
def test_durations_in_words(seconds: float, words: str) -> None:
    assert duration_words(seconds) == words
