"""An event known by its shape must leave the same record as one that was parsed."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from workers.loadgen.answer import Answer
from workers.loadgen.payload import read_payload
from workers.loadgen.shape import shape_of

TEXTS = st.text(st.characters(codec="utf-8"), max_size=5) | st.sampled_from(["m", "assistant", "other text", '"', "\\"])
DELTAS = st.fixed_dictionaries(
    {},
    optional={"content": TEXTS, "reasoning_content": TEXTS, "reasoning": TEXTS, "role": st.just("assistant")},
)


def event(delta: object, **more: object) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": None}
    document = {"id": "m", "object": "chat.completion.chunk", "model": "m", "choices": [choice], **more}
    return b"data: " + json.dumps(document, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n\n"


def record(parts: list[bytes], in_full: bool) -> tuple[object, ...]:
    """`in_full`: no event comes in one piece, so none can be known by its shape."""
    answer = Answer(keep_text=True)
    answer.begin(200, {}, 0)
    for time, part in enumerate(parts):
        for piece in (part[:1], part[1:]) if in_full else (part,):
            answer.feed(piece, time)
    answer.finish(len(parts))
    times = (list(answer.arrivals_ns), answer.t_answer_ns)
    return (answer.outcome, *times, answer.finish_reason, answer.output_tokens, answer.text, answer.said)


@given(st.lists(DELTAS, max_size=12))
@example([{"content": "a"}, {"content": "b"}, {"content": ""}, {"content": "c"}])
@example([{"content": "a"}, {"content": 'q"'}, {"content": "\\"}, {"content": "\n"}, {"content": "\r"}])
@example([{"reasoning": "a"}, {"reasoning": "b"}, {"content": "c"}, {"content": "d"}])
def test_known_shapes_and_full_reading_leave_the_same_record(deltas: list[dict[str, str]]) -> None:
    parts = [event(delta) for delta in deltas] + [b"data: [DONE]\n\n"]
    assert record(parts, in_full=False) == record(parts, in_full=True)


@given(st.binary(max_size=12))
@example(b'x"},"finish_reason":"stop","x":{"y":"')
@example(b'"')
@example(b"a\n\ndata: b")
def test_no_bytes_in_the_place_of_the_text_lead_to_another_record(text: bytes) -> None:
    head, tail = event({"content": "TEXT"}).split(b"TEXT")
    parts = [head + b"first" + tail, head + text + tail, b"data: [DONE]\n\n"]
    assert record(parts, in_full=False) == record(parts, in_full=True)


@pytest.mark.parametrize(
    ("delta", "more"),
    [
        ({"content": ""}, {}),
        ({"content": "a", "tool_calls": [{"id": "1"}]}, {"usage": {"completion_tokens": 1}}),
        ({"role": "assistant"}, {}),
    ],
)
def test_an_event_that_says_more_than_a_text_has_no_shape(delta: object, more: dict[str, object]) -> None:
    payload = event(delta, **more)[6:-2]
    reading = read_payload(payload)
    assert reading is not None and shape_of(payload, reading) is None


def test_a_text_that_stands_elsewhere_too_is_not_taken_for_it() -> None:
    """The model's name comes first and equals the text: replacing it must not pass for replacing the text."""
    payload = event({"content": "m"})[6:-2]
    reading = read_payload(payload)
    assert reading is not None and shape_of(payload, reading) is None


def test_a_shape_is_exact() -> None:
    one = event({"content": "a"})
    reading = read_payload(one[6:-2])
    assert reading is not None
    shape = shape_of(one[6:-2], reading)
    assert shape is not None
    assert shape.fits(event({"content": " a longer text"}))
    assert not shape.fits(one + one)
    assert not shape.fits(one[:-1])
    assert not shape.fits(event({"content": "a"}, created=1))
