"""What the conductor asks of the load generator is a plan that the generator takes, without any secret in it."""

from __future__ import annotations

from campaigns.models import StageKind
from campaigns.services.sequence import PlannedStage
from campaigns.services.stage_plan import CALIBRATION_REQUESTS, calibration_plan, generation_of, stage_plan
from tests.campaigns.services.test_sequence import make_plan
from workers.loadgen.plan import Plan, parse_plan

STAGE = PlannedStage(StageKind.LADDER, 1200, 5, 30)
MIX = [{"name": "a", "weight": 1, "input_tokens": 50, "output_tokens": 16}]


def parsed(calibration: dict[str, float] | None = None, unsupported: tuple[str, ...] = ()) -> Plan:
    plan = make_plan(generation={"top_p": 0.5, "temperature": 1})
    plan.mix.classes[:] = MIX
    return parse_plan(stage_plan(plan, STAGE, {"X-Team": "a"}, generation_of(plan, unsupported), calibration))


def test_the_generator_takes_the_plan_of_a_stage() -> None:
    plan = parsed()
    assert (plan.load.concurrency, plan.warmup_s, plan.measure_s) == (1200, 5, 30)  # type: ignore[union-attr]
    # Streams are spread over processes before one of them falls behind.
    assert plan.processes == 3
    assert plan.calibration is None


def test_a_campaigns_own_fields_stand_over_the_usual_ones_and_unknown_ones_are_left_out() -> None:
    assert parsed().request == {"temperature": 1, "ignore_eos": True, "top_p": 0.5}
    assert parsed(unsupported=("ignore_eos", "top_p")).request == {"temperature": 1, "ignore_eos": None, "top_p": None}


def test_what_an_earlier_stage_learnt_is_handed_on() -> None:
    plan = parsed({"words_per_token": 0.8, "overhead_tokens": 12.5, "requests": 40})
    assert plan.calibration is not None
    assert (plan.calibration.words_per_token, plan.calibration.overhead_tokens) == (0.8, 12.5)


def test_the_calibration_is_a_few_short_requests_of_two_lengths() -> None:
    plan = parse_plan(calibration_plan(make_plan(), {}, {}))
    assert plan.max_requests == CALIBRATION_REQUESTS
    assert {one.output_tokens for one in plan.mix.classes} == {1}
    assert len({one.input_tokens for one in plan.mix.classes}) == 2
