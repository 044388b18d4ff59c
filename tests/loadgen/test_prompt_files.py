"""Files of prompts of every kind: what is sent of them, and what is said of a file that is wrong."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.loadgen import vocabularies
from tests.loadgen.program import plan_for, run
from tests.loadgen.server import Behaviour, Server
from tests.loadgen.test_conversations import answered
from tests.loadgen.test_plan import changed
from workers.loadgen import file_rows
from workers.loadgen.calibration import Calibrator
from workers.loadgen.deal import deal
from workers.loadgen.plan import PlanError, parse_plan
from workers.loadgen.prompt_files import CountTokens, read_prompt_files
from workers.loadgen.prompts import Prepared, PromptMaker
from workers.loadgen.tokens import Tokens


def said(*turns: tuple[str, str]) -> dict[str, Any]:
    return {"id": "x", "conversations": [{"from": speaker, "value": text} for speaker, text in turns]}


def messages(*turns: tuple[str, str]) -> dict[str, Any]:
    return {"messages": [{"role": role, "content": text} for role, text in turns]}


def lines(*rows: dict[str, Any]) -> bytes:
    return "\n\n".join(json.dumps(row) for row in rows).encode()


def whole(*rows: dict[str, Any]) -> bytes:
    return json.dumps(rows, indent=1).encode()


def sent(
    data: bytes, directory: Path, count: CountTokens | None = None, take: int = 1, chat: bool = True, **fields: Any
) -> list[Prepared]:
    """Every request of the first conversations, each answered with "fine"."""
    (directory / "prompts").write_bytes(data)
    one = {"name": "f", "prompts": "prompts"} | fields
    protocol = "openai-chat" if chat else "openai-completions"
    plan = parse_plan(changed(mix={"classes": [one]}, protocol=protocol))
    maker = PromptMaker(plan, Calibrator(plan.protocol), read_prompt_files(plan, directory, count))
    dealing = deal(plan.mix, 1)
    requests: list[Prepared] = []
    for _ in range(take):
        following: Prepared | None = maker.make(next(dealing))
        while following is not None:
            requests.append(following)
            following = maker.follow_up(following, answered("fine"))
    return requests


def contents(prepared: Prepared) -> list[Any]:
    return [one["content"] for one in json.loads(prepared.body)["messages"]]


def asked_for(requests: list[Prepared]) -> list[int | None]:
    return [json.loads(one.body).get("max_tokens") for one in requests]


def wrong(data: bytes, directory: Path, chat: bool = True) -> str:
    with pytest.raises(PlanError) as caught:
        sent(data, directory, chat=chat)
    assert {problem.path for problem in caught.value.problems} == {"mix.classes[0].prompts"}
    return "\n".join(problem.message for problem in caught.value.problems)


@pytest.mark.parametrize("form", [lines, whole])
def test_rows_are_marked_with_a_nonce_and_taken_in_turn(form: Any, tmp_path: Path) -> None:
    parts = [{"type": "text", "text": "look"}]
    rows = (
        {"prompt": 'say "one"', "max_tokens": 3},
        messages(("system", "two"), ("assistant", "a"), ("user", "u")),
        {"messages": [{"role": "user", "name": "content", "content": parts}]},
    )
    requests = sent(form(*rows), tmp_path, take=4, output_tokens=9)
    assert asked_for(requests) == [3, 9, 9, 3]
    assert [contents(requests[place])[0].partition(" ")[2] for place in (0, 1, 3)] == ['say "one"', "two", 'say "one"']
    assert contents(requests[1])[1:] == ["a", "u"]
    assert json.loads(requests[1].body)["messages"][0]["role"] == "system"
    (third,) = json.loads(requests[2].body)["messages"]
    assert third["content"][1:] == parts
    assert (third["role"], third["name"]) == ("user", "content")
    nonces = [contents(requests[place])[0].split()[0] for place in (0, 1, 3)] + [third["content"][0]["text"].strip()]
    assert len(set(nonces)) == 4 and {len(nonce) for nonce in nonces} == {12}


RECORDED = [
    said(("human", "hello"), ("gpt", "five words of an answer"), ("human", "go on"), ("gpt", "more")),
    messages(("user", "hello"), ("assistant", "five words of an answer"), ("user", "go on"), ("assistant", "more")),
]


@pytest.mark.parametrize("row", RECORDED)
@pytest.mark.parametrize("form", [lines, whole])
def test_of_a_recorded_conversation_the_user_says_again_what_was_said(row: Any, form: Any, tmp_path: Path) -> None:
    first, second = sent(form(row), tmp_path)
    (hello,) = contents(first)
    assert hello.partition(" ")[2] == "hello"
    assert contents(second) == [hello, "fine", "go on"]
    assert (first.planned_input_tokens, second.words) == (None, 0)


@pytest.mark.parametrize("row", RECORDED)
def test_an_answer_may_get_as_long_as_it_was(row: Any, tmp_path: Path) -> None:
    tokens = Tokens(vocabularies.save("byte-level", tmp_path))
    counted = tokens.count(["five words of an answer", "more"])
    # By the tokenizer; else as the class says; else estimated, four tokens for three words.
    assert asked_for(sent(lines(row), tmp_path, tokens.count, output_tokens=50)) == counted
    assert asked_for(sent(lines(row), tmp_path, output_tokens=50)) == [50, 50]
    assert asked_for(sent(lines(row), tmp_path)) == [7, 2]
    assert asked_for(sent(lines(row | {"max_tokens": 4}), tmp_path, tokens.count)) == [4, 4]


def test_what_collections_hold_is_read_as_it_is(tmp_path: Path) -> None:
    rows = [
        said(),
        said(("gpt", "an end whose beginning was cut")),
        said(("gpt", "cut"), ("system", "be kind"), ("user", "hi"), ("bing", "a"), ("bard", " b"), ("human", " ")),
        said(("human", "unanswered")),
    ]
    requests = sent(b"\xef\xbb\xbf" + whole(*rows), tmp_path, take=3)
    assert [[text.partition(" ")[2] for text in contents(one)[:1]] for one in requests] == [
        ["be kind"],
        ["unanswered"],
        ["be kind"],
    ]
    assert contents(requests[0])[1:] == ["hi"]
    assert asked_for(requests) == [3, None, 3]


def test_a_completion_gets_one_text(tmp_path: Path) -> None:
    rows = (said(("system", "be kind"), ("human", 'a "quote"'), ("gpt", "x"), ("human", "b")), {"prompt": "plain"})
    prompts = [json.loads(one.body)["prompt"] for one in sent(lines(*rows), tmp_path, take=2, chat=False)]
    assert [prompt.partition(" ")[2] for prompt in prompts] == [
        'be kind\n\na "quote"',
        'be kind\n\na "quote"fine b',
        "plain",
    ]


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({}, "must have exactly one of prompt, messages, turns, conversations"),
        ({"prompt": "a", "turns": ["b"]}, "must have exactly one of"),
        ({"prompt": "a", "max_tokens": 0}, "`$.max_tokens`"),
        ({"prompt": 5}, "`$.prompt`"),
        ({"messages": []}, "`$.messages`"),
        ({"turns": []}, "`$.turns`"),
        ({"conversations": [{"from": "human"}]}, "missing required field `value`"),
        (said(("human", "a"), ("tool", "b")), "conversations[1].from must be one of system, user"),
        (said(("human", "a"), ("system", "b")), "must come before"),
        ({"messages": [{"role": "user"}, {"role": "assistant", "content": "a"}]}, "messages[0].content must be text"),
        (messages(("function", "a"), ("assistant", "b")), "messages[0].role must be one of"),
    ],
)
def test_a_wrong_row_is_named_with_its_field(row: dict[str, Any], words: str, tmp_path: Path) -> None:
    good = {"prompt": "a"}
    assert wrong(lines(good, row), tmp_path).startswith("line 3: ")
    found = wrong(whole(good, good, row), tmp_path)
    assert found.startswith("item 3: ")
    assert words in found


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "holds nothing to send"),
        (b" \n[]", "holds nothing to send"),
        (b"[{", "begins like a JSON list but is none"),
        (b"[" * 100_000, "begins like a JSON list but is none"),
        (b"once upon a time", "is no file of prompts"),
        (b'["a"]', "is no file of prompts"),
        (b'{"prompt": "a"}\nx', "line 2: JSON is malformed"),
        (b'{"prompt": "a"}\n{"prompt": "\xff"}', "line 2"),
        (b'{"prompt": "a"}\n' + b'{"a":' * 100_000, "line 2"),
        (b'{"prompt": "a"}\n' + b"{}\n" * 8, "3 more rows are wrong"),
        (json.dumps(said(("gpt", "a"))).encode(), "holds nothing to send"),
    ],
)
def test_a_file_of_no_use_is_told(data: bytes, words: str, tmp_path: Path) -> None:
    assert words in wrong(data, tmp_path)


def test_a_file_that_is_missing_is_told_with_its_class(tmp_path: Path) -> None:
    (tmp_path / "here").write_bytes(lines({"prompt": "a"}))
    plan = parse_plan(changed(mix={"classes": [{"name": name, "prompts": name} for name in ("here", "gone", ".")]}))
    with pytest.raises(PlanError) as caught:
        read_prompt_files(plan, tmp_path)
    assert [(one.path, one.message.partition("cannot be ")[2]) for one in caught.value.problems] == [
        ("mix.classes[1].prompts", "read: No such file or directory"),
        ("mix.classes[2].prompts", "read: Is a directory"),
    ]


def test_messages_need_a_chat(tmp_path: Path) -> None:
    assert "openai-chat" in wrong(lines(messages(("user", "a"))), tmp_path, chat=False)


def test_a_file_beyond_the_limits_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = lines(*[{"prompt": "a"}] * 3)
    monkeypatch.setattr(file_rows, "ROWS_MAX", 3)
    assert len(sent(data, tmp_path)) == 1
    monkeypatch.setattr(file_rows, "ROWS_MAX", 2)
    assert "has more than 2 rows" in wrong(data, tmp_path)
    monkeypatch.setattr(file_rows, "FILE_BYTES_MAX", len(data) - 1)
    assert "is larger than" in wrong(data, tmp_path)


def test_a_stage_holds_a_files_conversations(tmp_path: Path) -> None:
    (tmp_path / "talks").write_bytes(whole(*RECORDED))
    with Server(Behaviour(ttft_ms=1, itl_ms=0)).running() as server:
        mixed = {"classes": [{"name": "f", "prompts": "talks"}]}
        ran = run(plan_for(server.base_url, 1, mix=mixed, max_requests=4, measure_s=30, warmup_s=0), tmp_path)
    assert (ran.code, ran.errors) == (0, "")
    assert [row["output_tokens"] for row in ran.rows] == [7, 2, 7, 2]
    assert [len(one.body["messages"]) for one in server.seen] == [1, 3, 1, 3]
    assert server.seen[1].body["messages"][1] == {"role": "assistant", "content": "word " * 7}
