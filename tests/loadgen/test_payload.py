import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.loadgen.payload import Reading, error_text, read_payload


def read(document: Any) -> Reading:
    reading = read_payload(json.dumps(document).encode())
    assert reading is not None
    return reading


def delta(**fields: Any) -> Reading:
    return read({"choices": [{"index": 0, "delta": fields, "finish_reason": None}]})


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"role": "assistant", "content": ""},
        {"role": "assistant", "content": None},
        {"reasoning_content": ""},
        {"tool_calls": []},
        {"tool_calls": [{"index": 0, "function": {"arguments": ""}}]},
        {"tool_calls": None},
        {"content": []},
    ],
)
def test_a_delta_without_a_part_of_the_answer_is_no_output(fields: dict[str, Any]) -> None:
    assert not delta(**fields).output


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"content": "a"}, "a"),
        ({"content": " "}, " "),
        ({"content": "\ufffd\u0000"}, "\ufffd\u0000"),
        ({"reasoning_content": "hm"}, "hm"),
        ({"reasoning": "hm"}, "hm"),
        ({"reasoning": "hm", "reasoning_content": "hm"}, "hm"),
        ({"refusal": "no"}, "no"),
        ({"content": [{"type": "text", "text": "a"}, {"type": "thinking", "thinking": [{"text": "b"}]}]}, "ab"),
        ({"tool_calls": [{"index": 0, "id": "t", "function": {"name": "f", "arguments": ""}}]}, ""),
        ({"tool_calls": [{"index": 0, "function": {"arguments": "{}"}}]}, ""),
        ({"function_call": {"name": "f"}}, ""),
    ],
)
def test_text_reasoning_refusal_and_tool_calls_are_output(fields: dict[str, Any], text: str) -> None:
    reading = delta(**fields)
    assert reading.output
    assert reading.text == text


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"error": {"message": "KV cache exhausted", "code": 500}}, "KV cache exhausted"),
        ({"error": "cuda oom"}, "cuda oom"),
        ({"error": {"type": "x"}}, '{"type": "x"}'),
        ({"error": {"message": {"detail": "deep"}}}, "deep"),
        ({"object": "error", "message": "overloaded"}, "overloaded"),
        ({"choices": "x"}, "unknown shape"),
        ([1], "unknown shape"),
        ("text", "text"),
    ],
)
def test_errors_are_read_in_every_form(document: Any, message: str) -> None:
    assert message in (read(document).error or "")


def test_broken_text_inside_an_event_still_counts_as_output() -> None:
    for raw in (b"\xe4\xbd", b"\x00", b"\\ud83d", b"\x1b"):
        reading = read_payload(b'{"choices":[{"delta":{"content":"a%s"}}]}' % raw)
        assert reading is not None
        assert reading.output
        assert reading.error is None


def test_null_says_nothing_and_null_fields_are_no_error() -> None:
    assert read_payload(b"null") is None
    assert read({"error": None, "choices": None, "usage": None, "object": None}).error is None


def test_usage_takes_whole_numbers_only() -> None:
    usage = read(
        {"usage": {"prompt_tokens": 5.0, "completion_tokens": True, "prompt_tokens_details": {"cached_tokens": -1}}}
    ).usage
    assert usage is not None
    assert (usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens) == (5, None, None)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(
            st.sampled_from(
                [
                    "choices",
                    "delta",
                    "content",
                    "usage",
                    "error",
                    "index",
                    "tool_calls",
                    "function",
                    "message",
                    "text",
                    "finish_reason",
                    "completion_tokens",
                ]
            ),
            inner,
        )
    ),
    max_leaves=20,
)


@given(st.binary() | JSON.map(lambda document: json.dumps(document).encode()))
def test_no_bytes_raise(data: bytes) -> None:
    read_payload(data)
    assert isinstance(error_text(data), str)


def test_deep_nesting_is_an_error_and_no_crash() -> None:
    reading = read_payload(b'{"choices":' + b"[" * 100_000)
    assert reading is not None
    assert reading.error
