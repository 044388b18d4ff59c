from collections.abc import Callable
from dataclasses import replace

import pytest

from campaigns.analysis.load_line import DEFAULT_CRITERIA, LoadLine, MeasuredStage, find_load_line
from campaigns.analysis.refine import Refinement, next_stage
from campaigns.analysis.validity import Check
from tests.analysis.tables import WEIGHTS, ladder, measured

LEVELS = (5, 10, 20, 30, 50)
INVALID = Check("lateness", False, "invalid", 9.0, 5.0, "the load generator was late")


def judge(stages: list[MeasuredStage], **options: bool) -> LoadLine:
    return find_load_line(stages, DEFAULT_CRITERIA, WEIGHTS, 7, resamples=500, **options)


def refine(
    slowdown: Callable[[int], float], levels: tuple[int, ...] = LEVELS, noise: float = 0.02
) -> tuple[LoadLine, list[int], Refinement]:
    """Refine against a known truth until it is finished: the line, the steps taken and the last word."""
    stages = ladder(levels, slowdown, noise=noise, closing=None)
    steps: list[int] = []
    while True:
        line = judge(stages)
        step = next_stage(line, stages, budget_left_s=1e9, stage_s=300)
        if step.concurrency is None:
            return line, steps, step
        steps.append(step.concurrency)
        assert len(steps) <= 15
        n = 400 if step.measure_s == 300 else 800
        stages.append(
            measured(
                step.concurrency, "refine", ttft=slowdown(step.concurrency), noise=noise, n=n, seed=len(steps) + 10
            )
        )


@pytest.mark.parametrize("truth", [2.5, 7.5, 13.5, 26.5, 44.5])
@pytest.mark.parametrize("noise", [0.0, 0.02, 0.1])
def test_a_linear_truth_is_found_to_one_user_or_five_percent(truth: float, noise: float) -> None:
    line, steps, last = refine(lambda c: 1 + 0.5 * (c - 1) / (truth - 1), noise=noise)
    answer = line.max_concurrency
    assert answer.value is not None and answer.low is not None and answer.high is not None
    assert abs(answer.value - int(truth)) <= max(1, 0.05 * truth)
    assert answer.low <= truth < answer.high + 1
    assert "neighbours" in last.reason or "within 5%" in last.reason
    # log2(log(2) / log(1.05)) halvings at most of the widest gap; near the limit each level three times.
    assert len(set(steps)) <= 5
    assert max(steps.count(concurrency) for concurrency in set(steps)) <= 3


@pytest.mark.parametrize("truth", [1, 3, 6, 17, 24, 49])
def test_a_step_is_found_exactly_or_to_five_percent(truth: int) -> None:
    line, steps, _ = refine(lambda c: 1.05 if c <= truth else 4.0)
    assert line.max_concurrency.value is not None
    assert abs(line.max_concurrency.value - truth) <= 0.05 * truth
    assert len(steps) == len(set(steps)) <= 7


def test_an_unsure_stage_is_measured_longer_before_the_gap_is_halved() -> None:
    stages = ladder((5, 10, 20), lambda c: {5: 1.1, 10: 1.5, 20: 3.0}[c], noise=0.1)
    step = next_stage(judge(stages), stages, budget_left_s=1e6, stage_s=300)
    assert (step.concurrency, step.measure_s) == (10, 600)
    assert "unsure" in step.reason


def test_an_unsure_stage_is_measured_at_most_three_times() -> None:
    _, steps, _ = refine(lambda c: 1.5 if c == 10 else (1.1 if c < 10 else 3.0), (5, 10, 11), noise=0.02)
    assert steps == [10, 10]


def test_the_gap_is_halved_on_the_log_scale() -> None:
    stages = ladder((5, 20), lambda c: 1.1 if c == 5 else 3.0)
    assert next_stage(judge(stages), stages, 1e6, 300).concurrency == 10


def test_a_failing_first_stage_is_refined_down_to_the_baseline() -> None:
    stages = ladder((8, 16), lambda c: 3.0)
    step = next_stage(judge(stages, baseline_is_rung=False), stages, 1e6, 300)
    assert step.concurrency == 3


@pytest.mark.parametrize(("budget_s", "goes_on"), [(330, True), (329, False), (0, False)])
def test_the_budget_holds_measuring_and_overhead(budget_s: float, goes_on: bool) -> None:
    stages = ladder((5, 20), lambda c: 1.1 if c == 5 else 3.0)
    step = next_stage(judge(stages), stages, budget_s, 300, overhead_s=30)
    assert step.finished is not goes_on
    assert goes_on or step.reason.startswith("budget spent")


def test_an_invalid_stage_is_tried_again_but_not_for_ever() -> None:
    stages = ladder((5, 20), lambda c: 1.1 if c == 5 else 3.0)
    bad = replace(measured(10, "refine"), checks=(INVALID,))
    again = next_stage(judge([*stages, bad]), [*stages, bad], 1e6, 300)
    assert (again.concurrency, again.measure_s) == (10, 300)
    thrice = [*stages, bad, bad, bad]
    given_up = next_stage(judge(thrice), thrice, 1e6, 300)
    assert given_up.finished
    assert "could not be measured" in given_up.reason


def test_nothing_failed_leaves_nothing_to_refine() -> None:
    stages = ladder((5, 10), lambda c: 1.1)
    assert "extend the ladder" in next_stage(judge(stages), stages, 1e6, 300).reason


def test_no_verdict_leaves_nothing_to_refine() -> None:
    stages = ladder((5, 10), lambda c: 3.0, closing=1.5)
    assert next_stage(judge(stages), stages, 1e6, 300).reason.startswith("none: drifted")
