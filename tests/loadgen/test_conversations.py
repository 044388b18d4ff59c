import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.loadgen.program import plan_for, run
from tests.loadgen.server import BASE_TOKENS, Behaviour, Seen, Server
from tests.loadgen.test_plan import changed, mix
from workers.loadgen.answer import Answer, Outcome
from workers.loadgen.calibration import Calibrator
from workers.loadgen.conversations import Turn, continued, drawn_turns, opening, quoted
from workers.loadgen.deal import Dealt, deal
from workers.loadgen.plan import Plan, parse_plan
from workers.loadgen.prompt_files import read_prompt_files
from workers.loadgen.prompts import Prepared, PreparedRequests, PromptMaker

THREE = mix({"turns": 3, "input_tokens": 40, "output_tokens": 6})
KNOWN = {"calibration": {"words_per_token": 1, "overhead_tokens": 10}}


def maker_of(plan: Plan) -> PromptMaker:
    return PromptMaker(plan, Calibrator(plan.protocol, plan.calibration), {})


def answered(text: str, outcome: Outcome = Outcome.OK, thought: str = "", tokens: int = 6) -> Answer:
    answer = Answer(keep_text=True)
    answer.begin(200, {}, 0)
    message = {"content": text, "reasoning_content": thought}
    usage = {"completion_tokens": tokens}
    document = {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": usage}
    answer.feed(json.dumps(document).encode(), 1)
    if outcome is not Outcome.OK:
        answer.fail(outcome, "failed", 2)
    answer.finish(2)
    return answer


def messages_of(prepared: Prepared) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = json.loads(prepared.body)["messages"]
    return messages


def test_each_turn_says_all_that_was_said_before_and_so_many_new_words() -> None:
    maker = maker_of(parse_plan(changed(mix=THREE, **KNOWN)))
    first = maker.make(Dealt(0, 0, 40, 6))
    second = maker.follow_up(first, answered('he said "no"\n\\ ü'))
    assert second is not None
    third = maker.follow_up(second, answered("visible", thought="a thought"))
    assert third is not None
    assert maker.follow_up(third, answered("the end")) is None
    messages = messages_of(third)
    assert [one["role"] for one in messages] == ["user", "assistant", "user", "assistant", "user"]
    assert messages[:1] == messages_of(first)
    assert messages[:3] == messages_of(second)
    assert (messages[1]["content"], messages[3]["content"]) == ('he said "no"\n\\ ü', "visible")
    assert [len(messages[place]["content"].split()) for place in (2, 4)] == [40, 40]
    assert len({first.request_id, second.request_id, third.request_id}) == 3
    assert json.loads(third.body)["max_tokens"] == 6
    assert (first.planned_input_tokens, second.planned_input_tokens, third.planned_input_tokens) == (40, 86, 132)
    # The calibration learns from first turns only: what surrounds a later one is not known.
    assert (second.words, third.words) == (0, 0)


def test_what_the_server_counted_is_known_and_thoughts_are_not_said_again() -> None:
    maker = maker_of(parse_plan(changed(mix=THREE, **KNOWN)))
    answer = answered("yes", tokens=50)
    answer.prompt_tokens, answer.reasoning_tokens = 55, 44
    following = maker.follow_up(maker.make(Dealt(0, 0, 40, 6)), answer)
    assert following is not None
    assert following.planned_input_tokens == 55 + 6 + 40


def test_a_completions_conversation_is_one_text() -> None:
    maker = maker_of(parse_plan(changed(mix=THREE, protocol="openai-completions", **KNOWN)))
    first = maker.make(Dealt(0, 0, 40, 6))
    second = maker.follow_up(first, answered(' an "answer"'))
    assert second is not None
    before, prompt = json.loads(first.body)["prompt"], json.loads(second.body)["prompt"]
    assert prompt.startswith(before + ' an "answer" ')
    assert len(prompt.removeprefix(before + ' an "answer" ').split()) == 40


@pytest.mark.parametrize("outcome", [one for one in Outcome if one is not Outcome.OK])
def test_a_failed_turn_ends_its_conversation(outcome: Outcome) -> None:
    maker = maker_of(parse_plan(changed(mix=THREE, **KNOWN)))
    assert maker.follow_up(maker.make(Dealt(0, 0, 40, 6)), answered("", outcome)) is None


def test_turns_are_drawn_the_same_whatever_the_order() -> None:
    uniform = {"dist": "uniform", "min": 1, "max": 9}
    plan = parse_plan(changed(mix=mix({"turns": uniform, "input_tokens": uniform, "output_tokens": uniform})))
    (one,) = plan.mix.classes
    drawn = [drawn_turns(one, plan.seed, place) for place in range(300)]
    assert [drawn_turns(one, plan.seed, place) for place in reversed(range(300))] == drawn[::-1]
    assert {len(turns) for turns in drawn} == set(range(9))
    assert {turn.input_tokens for turns in drawn for turn in turns} == set(range(1, 10))
    assert drawn != [drawn_turns(one, plan.seed + 1, place) for place in range(300)]


def test_a_files_turns_are_said_as_they_stand(tmp_path: Path) -> None:
    plan = parse_plan(changed(mix={"classes": [{"name": "f", "prompts": "f.jsonl", "think_s": 2}]}))
    (tmp_path / "f.jsonl").write_text(json.dumps({"turns": ['say "one"', "zwei", "drei"], "max_tokens": 7}))
    maker = PromptMaker(plan, Calibrator(plan.protocol), read_prompt_files(plan, tmp_path))
    prepared: Prepared | None = maker.make(Dealt(0, 0, None, None))
    for number in range(3):
        assert prepared is not None
        assert (prepared.think_s, prepared.planned_output_tokens) == (2, 7)
        last, prepared = prepared, maker.follow_up(prepared, answered(f"answer {number}"))
    assert prepared is None
    first, *others = [one["content"] for one in messages_of(last)]
    assert first.partition(" ")[2] == 'say "one"'
    assert others == ["answer 0", "zwei", "answer 1", "drei"]


def test_half_a_surrogate_pair_in_an_answer_is_said_as_a_question_mark() -> None:
    content = continued(opening(b"a", chat=True), "b \ud800 c", quoted('d "e"'))
    assert [one["content"] for one in json.loads(content)] == ["a", "b ? c", 'd "e"']


def test_the_limit_counts_turns_too() -> None:
    plan = parse_plan(changed(mix=THREE, **KNOWN))
    requests = PreparedRequests(deal(plan.mix, 1), maker_of(plan), ahead=3, limit=2)
    first = requests.take()
    assert first is not None
    second = requests.follow_up(first, answered("a"))
    assert second is not None
    assert requests.follow_up(second, answered("b")) is None
    assert requests.take() is None


def test_an_ended_conversation_uses_up_no_limit() -> None:
    plan = parse_plan(changed(**KNOWN))
    requests = PreparedRequests(deal(plan.mix, 1), maker_of(plan), ahead=3, limit=2)
    first = requests.take()
    assert first is not None
    assert requests.follow_up(first, answered("a")) is None
    assert requests.take() is not None


def conversations(seen: list[Seen]) -> list[list[Seen]]:
    """What the server saw, by the first message, whose nonce tells one conversation from another."""
    found: dict[str, list[Seen]] = {}
    for one in seen:
        found.setdefault(one.body["messages"][0]["content"], []).append(one)
    return list(found.values())


CLOSED = {"kind": "closed", "concurrency": 2}
OPEN = {"kind": "open", "rate_rps": 30}


@pytest.mark.parametrize("load", [CLOSED, OPEN], ids=["closed", "open"])
@pytest.mark.parametrize("processes", [1, 2])
def test_a_stage_sends_turn_after_turn_with_the_servers_own_answers(
    load: dict[str, Any], processes: int, tmp_path: Path
) -> None:
    think_s = 0.05
    mixed = mix({"turns": 3, "think_s": think_s, "input_tokens": 20, "output_tokens": 4})
    with Server(Behaviour(ttft_ms=1, itl_ms=0)).running() as server:
        plan = plan_for(server.base_url, load=load, mix=mixed, processes=processes, max_requests=40, measure_s=30)
        ran = run(plan, tmp_path)
    assert (ran.code, ran.errors) == (0, "")
    assert len(server.seen) == len(ran.rows) == 40
    assert {row["outcome"] for row in ran.rows} == {"ok"}
    rows = {row["request_id"]: row for row in ran.rows}
    whole = 0
    for turns in conversations(server.seen):
        whole += len(turns) == 3
        for number, seen in enumerate(turns):
            roles = [one["role"] for one in seen.body["messages"]]
            assert roles == ["user", "assistant"] * number + ["user"]
            assert [one["content"] for one in seen.body["messages"][1::2]] == ["word " * 4] * number
        times = [rows[one.headers["x-request-id"]] for one in turns]
        for before, after in pairwise(times):
            assert after["t_due_ns"] - before["t_end_ns"] >= think_s * 1e9
    assert whole >= 8


def test_conversations_of_an_open_loop_are_waited_for_and_measured_when_due(tmp_path: Path) -> None:
    mixed = mix({"turns": 2, "think_s": 0.3, "input_tokens": 20, "output_tokens": 4})
    with Server(Behaviour(ttft_ms=200, itl_ms=0)).running() as server:
        load = {"kind": "open", "rate_rps": 20, "arrivals": "constant"}
        ran = run(plan_for(server.base_url, load=load, mix=mixed, warmup_s=0, measure_s=1), tmp_path)
    measured = [row for row in ran.rows if row["measured"]]
    assert all(row["measured"] == (0 <= row["t_due_ns"] < 1e9) for row in ran.rows)
    assert {row["outcome"] for row in measured} == {"ok"}
    # Twenty arrivals, and the second turns of those that were answered half a second before the window's end.
    assert 20 < len(measured) < 40


def test_a_stage_ends_conversations_at_a_failure_and_goes_on_with_others(tmp_path: Path) -> None:
    with Server(Behaviour(ttft_ms=1, itl_ms=0, fail="error", fail_every=4)).running() as server:
        mixed = mix({"turns": 3, "input_tokens": 20, "output_tokens": 4})
        ran = run(plan_for(server.base_url, 1, mix=mixed, max_requests=12, measure_s=30), tmp_path)
    outcomes = [row["outcome"] for row in ran.rows]
    assert outcomes == ["ok", "ok", "ok", "stream_error"] * 3
    assert [len(turns) for turns in conversations(server.seen)] == [3, 1] * 3


def test_input_tokens_grow_with_what_was_said(tmp_path: Path) -> None:
    with Server(Behaviour(ttft_ms=1, itl_ms=0, usage=False)).running() as server:
        mixed = mix({"turns": 3, "input_tokens": 50, "output_tokens": 4})
        known = {"calibration": {"words_per_token": 1, "overhead_tokens": BASE_TOKENS}}
        ran = run(plan_for(server.base_url, 1, mix=mixed, max_requests=3, measure_s=30, **known), tmp_path)
    assert [row["input_tokens"] for row in ran.rows] == [50, 104, 158]
    assert [len(turn.body["messages"][-1]["content"].split()) for turn in server.seen] == [39, 50, 50]


def test_turns_have_their_own_lengths() -> None:
    plan = parse_plan(changed(mix=mix({"turns": 2, "input_tokens": 40, "output_tokens": 6})))
    assert drawn_turns(plan.mix.classes[0], 1, 0) == (Turn(None, 40, 6),)
    assert drawn_turns(parse_plan(changed()).mix.classes[0], 1, 0) == ()
