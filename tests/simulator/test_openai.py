from __future__ import annotations

import json

import pytest

from workers.simulator.openai import RequestError, read_chat, read_completion


def chat(**fields: object) -> bytes:
    return json.dumps({"messages": [{"role": "user", "content": "one two three"}], **fields}).encode()


def test_a_chat_counts_words_messages_and_the_chat() -> None:
    parts = [{"type": "text", "text": "four five"}, {"type": "image_url", "image_url": {"url": "x"}}]
    body = json.dumps(
        {"messages": [{"role": "system", "content": "one two three"}, {"role": "user", "content": parts}]}
    )
    assert read_chat(body.encode()).prompt_tokens == 3 + (4 + 3) + (4 + 2)


@pytest.mark.parametrize(("prompt", "tokens"), [("one  two\nthree", 4), (["one two"], 3), ([5, 6, 7], 3), ("", 1)])
def test_a_text_prompt_counts_words_or_ids(prompt: object, tokens: int) -> None:
    assert read_completion(json.dumps({"prompt": prompt}).encode()).prompt_tokens == tokens


def test_the_newer_name_of_the_limit_wins() -> None:
    assert read_chat(chat(max_tokens=5, max_completion_tokens=7)).max_tokens == 7


@pytest.mark.parametrize(
    ("fields", "natural", "expected"),
    [
        ({"max_tokens": 10, "ignore_eos": True}, 5, (10, "length")),
        ({"max_tokens": 10}, 5, (5, "stop")),
        ({"max_tokens": 10}, 50, (10, "length")),
        ({"max_tokens": 10, "min_tokens": 8}, 5, (8, "stop")),
        ({}, 50, (50, "stop")),
        ({"ignore_eos": True}, 50, (90, "length")),
    ],
)
def test_how_long_an_answer_is_and_why(fields: dict[str, object], natural: int, expected: tuple[int, str]) -> None:
    assert read_chat(chat(**fields)).answer_length(natural, max_model_len=100) == expected


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"[]",
        b"\xff",
        b"{}",
        b'{"messages": []}',
        chat(max_tokens=0),
        chat(max_tokens="5"),
        chat(min_tokens=-1),
        chat(max_tokens=4, min_tokens=5),
        chat(n=2),
        chat(stream_options={"include_usage": True}),
    ],
)
def test_a_wrong_request_is_a_400(body: bytes) -> None:
    with pytest.raises(RequestError) as caught:
        read_chat(body)
    assert caught.value.status == 400
    assert json.loads(caught.value.body)["error"]["message"]


def test_a_request_that_exceeds_the_context_is_a_400() -> None:
    with pytest.raises(RequestError, match="maximum context length is 100"):
        read_chat(chat(max_tokens=95)).answer_length(5, max_model_len=100)
