import json
from typing import Any

import pytest

from tests.loadgen.test_plan import changed, mix
from workers.loadgen.calibration import Calibrator
from workers.loadgen.deal import Dealt, deal
from workers.loadgen.plan import Plan, parse_plan
from workers.loadgen.prompts import PreparedRequests, PromptMaker
from workers.loadgen.words import Text


def maker_of(plan: Plan, calibrator: Calibrator | None = None) -> PromptMaker:
    return PromptMaker(plan, calibrator or Calibrator(plan.protocol, plan.calibration), {})


def known(words_per_token: float = 1.0, overhead_tokens: float = 0.0) -> dict[str, Any]:
    return {"calibration": {"words_per_token": words_per_token, "overhead_tokens": overhead_tokens}}


def content_of(body: bytes) -> str:
    document = json.loads(body)
    return str(document["messages"][0]["content"] if "messages" in document else document["prompt"])


def test_a_body_asks_for_what_the_plan_says_and_null_drops_a_key() -> None:
    plan = parse_plan(changed(request={"temperature": 0, "stop": ["x"], "stream_options": None}))
    body = json.loads(maker_of(plan).make(Dealt(0, 0, 50, 200)).body)
    assert body.pop("messages")[0]["role"] == "user"
    assert body == {"model": "m", "max_tokens": 200, "stream": True, "temperature": 0, "stop": ["x"]}
    assert json.loads(maker_of(parse_plan(changed())).make(Dealt(0, 0, 50, 200)).body)["stream_options"] == {
        "include_usage": True
    }
    text = parse_plan(changed(protocol="openai-completions"))
    assert isinstance(json.loads(maker_of(text).make(Dealt(0, 0, 50, 1)).body)["prompt"], str)


def test_prompts_are_unique_from_their_first_word_on_also_for_the_same_seed() -> None:
    plan = parse_plan(changed())
    prompts = [maker_of(plan).make(dealt) for _ in range(3) for dealt in [next(deal(plan.mix, 1))] * 50]
    assert len({content_of(prompt.body).split()[0] for prompt in prompts}) == len(prompts)
    assert len({prompt.request_id for prompt in prompts}) == len(prompts)


def test_a_shared_prefix_comes_before_the_nonce_and_is_the_same_for_a_seed() -> None:
    plan = parse_plan(changed(mix=mix({}) | {"shared_prefix_tokens": 40}, **known()))
    first, second = (maker_of(plan).make(Dealt(0, 0, 20, 5)) for _ in range(2))
    words, others = content_of(first.body).split(), content_of(second.body).split()
    assert words[:40] == others[:40]
    assert words[40] != others[40]
    assert first.planned_input_tokens == 60


@pytest.mark.parametrize("tokens", [1, 5, 100, 70_000, 200_000])
def test_a_prompt_has_the_words_that_the_calibration_asks_for(tokens: int) -> None:
    plan = parse_plan(changed(**known(words_per_token=0.7, overhead_tokens=3)))
    prepared = maker_of(plan).make(Dealt(0, 0, tokens, 5))
    assert prepared.words == max(0, round((tokens - 3) * 0.7))
    assert len(content_of(prepared.body).split()) == prepared.words + 1


def test_text_cut_beyond_its_end_goes_on_from_its_start() -> None:
    text = Text(1)
    whole = text.cut(0, 65_536).split()
    assert text.cut(65_530, 10).split() == whole[-6:] + whole[:4]
    assert text.cut(3, 0) == b""


@pytest.mark.parametrize(("tokens_a_word", "template"), [(1.0, 9), (1.3, 40), (5.2, 20)])
def test_lengths_are_right_within_5_percent_once_some_were_counted(tokens_a_word: float, template: int) -> None:
    calibrator = Calibrator("openai-chat")
    for asked in (50, 500, 50, 2000):
        words = calibrator.words_for(asked)
        calibrator.observe(words, round(template + words * tokens_a_word))
    calibrator.freeze()
    calibrator.observe(1, 1_000_000)
    for asked in (50, 500, 2000, 8000):
        assert template + calibrator.words_for(asked) * tokens_a_word == pytest.approx(
            asked, rel=0.05, abs=tokens_a_word
        )
    assert calibrator.requests == 4


def test_one_length_alone_is_learned_too() -> None:
    calibrator = Calibrator("openai-completions")
    for _ in range(4):
        words = calibrator.words_for(300)
        calibrator.observe(words, round(25 + words * 1.4))
    assert 25 + calibrator.words_for(300) * 1.4 == pytest.approx(300, rel=0.02)


def test_requests_keep_the_dealt_order_stop_at_their_limit_and_can_be_made_anew() -> None:
    plan = parse_plan(changed(mix=mix({"input_tokens": {"dist": "uniform", "min": 1, "max": 999}})))
    calibrator = Calibrator(plan.protocol)
    requests = PreparedRequests(deal(plan.mix, 1), maker_of(plan, calibrator), ahead=3, limit=5)
    calibrator.observe(100, 230)
    requests.remake()
    taken = []
    while (prepared := requests.take()) is not None:
        taken.append(prepared)
    dealing = deal(plan.mix, 1)
    assert [prepared.dealt for prepared in taken] == [next(dealing) for _ in range(5)]
    assert [prepared.words for prepared in taken] == [
        calibrator.words_for(one.planned_input_tokens or 0) for one in taken
    ]
