"""The order of stages follows from the plan and what was measured, wherever a run was interrupted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from campaigns.analysis.criteria import DEFAULT_CRITERIA, Criterion
from campaigns.analysis.requests import RequestTable
from campaigns.analysis.summary import RunAnalysis, RunInput, analyse_run
from campaigns.analysis.validity import StageInput
from campaigns.models import StageKind
from campaigns.models.plan import DEFAULT_CRITERIA as PLANNED_CRITERIA
from campaigns.models.plan import AbortPlan, MixPlan, RefinePlan, RunPlan, TargetPlan
from campaigns.services.sequence import PlannedStage, WholeStage, find_ceiling, known_stages, next_stage


def make_plan(stages: Sequence[int] = (1, 4, 8), **changes: Any) -> RunPlan:
    target = TargetPlan(
        id=1,
        name="t",
        base_url="http://127.0.0.1:1/v1",
        model="m",
        protocol="openai-chat",
        verify_tls=True,
        has_api_key=False,
        header_names=[],
        gpu_count=None,
        gpu_model="",
        metrics=[],
        tags=[],
    )
    values: dict[str, Any] = {
        "version": "0",
        "target": target,
        "mix": MixPlan(id=1, name="x", classes=[{"name": "a", "weight": 1}], shared_prefix_tokens=0),
        "stages": list(stages),
        "stage_s": 30,
        "warmup_s": 5,
        "drain_s": 10,
        "baseline_s": 20,
        "timeout_s": 60,
        "criteria": list(PLANNED_CRITERIA),
        "refine": RefinePlan(enabled=False, budget_s=600),
        "repeats": 1,
        "abort": AbortPlan(error_pct=50, after_s=10),
        "load": "closed",
        "drivers": [],
        "generation": {},
        "seed": 1,
        **changes,
    }
    return RunPlan(**values)


def stage_input(kind: str, users: int, slower: float, failed_rounds: int = 0) -> StageInput:
    """A few requests, one after the other, on each of `users` slots, TTFT and TPOT `slower` times 100 ms and 10 ms."""
    ok, failed = users * max(4, 40 // users), users * failed_rounds
    n = ok + failed
    length_ns = slower * 200e6
    start = [(i // users) * length_ns for i in range(n)]
    table = RequestTable.from_columns(
        {
            "outcome": ["ok"] * ok + ["refused"] * failed,
            "t_due_ns": start,
            "t_sent_ns": start,
            "t_first_ns": [one + slower * (100e6 + 1e5 * (i % 7)) for i, one in enumerate(start)],
            "t_last_ns": [one + slower * (190e6 + 1e5 * (i % 7)) for i, one in enumerate(start)],
            "t_end_ns": [one + length_ns for one in start],
            "output_tokens": [10.0] * n,
            "input_tokens": [10.0] * n,
            "token_source": ["usage"] * n,
        }
    )
    return StageInput(users, kind, table, window_s=n / users * length_ns / 1e9, in_flight_mean=users)  # type: ignore[arg-type]


def analyse(*stages: StageInput, criteria: tuple[Criterion, ...] = DEFAULT_CRITERIA) -> RunAnalysis:
    return analyse_run(RunInput(stages, criteria, {"default": 1.0}, seed=1))


def whole_of(stages: Sequence[StageInput], took_s: float = 40) -> list[WholeStage]:
    return [WholeStage(StageKind(stage.kind), stage.concurrency, took_s) for stage in stages]


def run_through(
    plan: RunPlan, slower: dict[int, float], late: Sequence[int] = (), most: int = 40
) -> list[tuple[str, int]]:
    """The stages that run on a server that is `slower[users]` times as slow (1 where it is not said); in those whose
    place is in `late` the generator is late, which makes them invalid."""
    stages: list[StageInput] = []
    for _ in range(most):
        planned = next_stage(plan, whole_of(stages), analyse(*stages) if stages else None)
        if planned is None:
            return [(stage.kind, stage.concurrency) for stage in stages]
        stage = stage_input(planned.kind, planned.concurrency, slower.get(planned.concurrency, 1.0))
        stages.append(replace(stage, lateness_p99_ms=100.0 if len(stages) in late else 0.1))
    raise AssertionError(f"still not done after {most} stages")


def test_the_baseline_stands_for_the_stage_at_one() -> None:
    assert run_through(make_plan([1, 4, 8]), {}) == [("baseline", 1), ("ladder", 4), ("ladder", 8), ("closing", 1)]


def test_a_ladder_that_begins_higher_has_its_own_baseline() -> None:
    assert run_through(make_plan([4, 8]), {}) == [("baseline", 1), ("ladder", 4), ("ladder", 8), ("closing", 1)]


def test_repeats_climb_the_whole_ladder_again() -> None:
    kinds = run_through(make_plan([1, 4], repeats=2), {})
    assert kinds == [("baseline", 1), ("ladder", 4), ("ladder", 1), ("ladder", 4), ("closing", 1)]


def test_the_closing_baseline_is_half_as_long() -> None:
    first, *_, last = known_stages(make_plan())
    assert first == PlannedStage(StageKind.BASELINE, 1, 5, 20)
    assert last == PlannedStage(StageKind.CLOSING, 1, 5, 10)


@given(st.lists(st.integers(1, 500), min_size=1, max_size=8, unique=True).map(sorted), st.integers(1, 3))
def test_without_refinement_the_known_stages_run_in_order(stages: list[int], repeats: int) -> None:
    plan = make_plan(stages, repeats=repeats)
    known = known_stages(plan)
    for done in range(len(known) + 1):
        whole = [WholeStage(one.kind, one.concurrency, 40) for one in known[:done]]
        assert next_stage(plan, whole, None) == (known[done] if done < len(known) else None)


def test_two_levels_far_beyond_end_the_ladder() -> None:
    plan = make_plan([1, 2, 4, 8, 16, 32])
    assert run_through(plan, {4: 3.5, 8: 4.0, 16: 9.0, 32: 9.0}) == [
        ("baseline", 1),
        ("ladder", 2),
        ("ladder", 4),
        ("ladder", 8),
        ("closing", 1),
    ]


def test_one_level_far_beyond_does_not() -> None:
    assert ("ladder", 8) in run_through(make_plan([1, 2, 4, 8]), {4: 9.0})


def test_failing_requests_end_the_ladder_at_once() -> None:
    plan = make_plan([1, 4, 8, 16])
    stages = [stage_input("baseline", 1, 1.0), stage_input("ladder", 4, 1.0, failed_rounds=15)]
    analysis = analyse(*stages)
    ceiling = find_ceiling(plan, analysis)
    assert ceiling is not None and ceiling.concurrency == 4 and "60%" in ceiling.reason
    planned = next_stage(plan, whole_of(stages), analysis)
    assert planned is not None and planned.kind == StageKind.CLOSING


def test_refinement_finds_the_limit_within_its_gap() -> None:
    plan = make_plan([1, 4, 12], refine=RefinePlan(enabled=True, budget_s=3600))
    slower = {users: 1.0 if users <= 7 else 2.0 for users in range(1, 13)}
    kinds = run_through(plan, slower)
    assert kinds[:3] == [("baseline", 1), ("ladder", 4), ("ladder", 12)]
    assert kinds[-1] == ("closing", 1)
    refined = {users for kind, users in kinds if kind == "refine"}
    assert {7, 8} <= refined <= set(range(5, 12))


def test_refinement_keeps_to_its_budget() -> None:
    plan = make_plan([1, 100], refine=RefinePlan(enabled=True, budget_s=80))
    kinds = run_through(plan, {users: 1.0 if users <= 37 else 2.0 for users in range(1, 101)})
    assert 1 <= sum(kind == "refine" for kind, _ in kinds) <= 2


@pytest.mark.parametrize("within", [True, False])
def test_nothing_is_refined_when_there_is_no_gap(within: bool) -> None:
    plan = make_plan([1, 2], refine=RefinePlan(enabled=True, budget_s=3600))
    assert run_through(plan, {2: 1.0 if within else 2.0}) == [("baseline", 1), ("ladder", 2), ("closing", 1)]


@pytest.mark.parametrize(
    ("late", "again"),
    [
        ([0], ["baseline 1", "baseline 1", "ladder 4", "ladder 8", "closing 1"]),
        ([1], ["baseline 1", "ladder 4", "ladder 4", "ladder 8", "closing 1"]),
        ([3], ["baseline 1", "ladder 4", "ladder 8", "closing 1", "closing 1"]),
        ([1, 2], ["baseline 1", "ladder 4", "ladder 4", "ladder 8", "closing 1"]),
        (range(99), ["baseline 1", "baseline 1", "ladder 4", "ladder 4", "ladder 8", "closing 1"]),
    ],
)
def test_an_invalid_stage_is_measured_once_more_but_not_every_one(late: Sequence[int], again: list[str]) -> None:
    assert [f"{kind} {users}" for kind, users in run_through(make_plan([1, 4, 8]), {}, late)] == again
