import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.loadgen.corpus import CASES, Case
from workers.loadgen.answer import Answer, Outcome

MS = 1_000_000


def answer_of(*parts: bytes, status: int = 200, headers: dict[bytes, bytes] | None = None) -> Answer:
    """Part k arrives at k ms; the body is whole after the last."""
    answer = Answer(keep_text=True)
    answer.sent(0)
    answer.begin(status, headers or {}, 0)
    for number, part in enumerate(parts):
        answer.feed(part, number * MS)
    answer.finish(len(parts) * MS)
    return answer


def event(delta: dict[str, Any] | None = None, reason: str | None = None, **more: Any) -> bytes:
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": reason}]
    return b"data: " + json.dumps({"choices": choices} | more).encode() + b"\n\n"


A, B, STOP, DONE = event({"content": "A"}), event({"content": "B"}), event({}, "stop"), b"data: [DONE]\n\n"


def record(answer: Answer) -> dict[str, Any]:
    names = (
        "outcome",
        "error",
        "output_events",
        "output_tokens",
        "token_source",
        "finish_reason",
        "text",
        "streamed",
        "prompt_tokens",
        "cached_tokens",
    )
    return {name: getattr(answer, name) for name in names}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_any_cut_of_a_real_answer_gives_the_expected_record(case: Case, data: st.DataObject) -> None:
    body = case.body
    cuts = sorted(data.draw(st.lists(st.integers(0, len(body)), max_size=12)))
    answer = answer_of(*(body[start:end] for start, end in pairwise([0, *cuts, len(body)])), status=case.status)
    case.check(answer)
    assert record(answer) == record(answer_of(body, status=case.status))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_real_answer_byte_by_byte_gives_the_expected_record(case: Case) -> None:
    case.check(answer_of(*(bytes([byte]) for byte in case.body), status=case.status))


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.sampled_from(
            [
                A,
                B,
                STOP,
                DONE,
                b"data: null\n\n",
                b": ping\n\n",
                b"\r",
                b"\n",
                b"{",
                b"<",
                b"\xff",
                b"\x00",
                b"data: {",
                event(usage={"completion_tokens": 3}),
                event(error="x"),
                b"\xef\xbb\xbf",
            ]
        ),
        max_size=12,
    ).map(b"".join),
    st.data(),
)
def test_whatever_comes_there_is_one_outcome_and_it_does_not_depend_on_the_cut(
    body: bytes, data: st.DataObject
) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(body)), max_size=12)))
    answer = answer_of(*(body[start:end] for start, end in pairwise([0, *cuts, len(body)])))
    assert answer.outcome in (Outcome.OK, Outcome.STREAM_ERROR)
    assert record(answer) == record(answer_of(body))


def test_the_first_token_is_the_first_output_and_not_the_first_event() -> None:
    answer = answer_of(
        event({"role": "assistant", "content": ""}),
        event({"role": "assistant", "content": None}),
        event({}),
        b": ping\n\n",
        A,
        B,
        STOP,
        event(usage={"prompt_tokens": 9, "completion_tokens": 2}),
        DONE,
    )
    assert (answer.t_first_ns, answer.t_last_ns, answer.t_end_ns) == (4 * MS, 5 * MS, 8 * MS)
    assert (answer.outcome, answer.output_tokens, answer.token_source) == (Outcome.OK, 2, "usage")


def test_reasoning_that_ends_before_any_content_is_a_success() -> None:
    answer = answer_of(event({"reasoning": "Let"}), event({"reasoning": " me"}), event({}, "length"), DONE)
    assert (answer.outcome, answer.t_first_ns, answer.output_tokens) == (Outcome.OK, 0, 2)


def test_framing_variants_of_one_stream() -> None:
    body = (
        b":\n\n: keep-alive\n\nevent: message\r\nid: 7\r\nretry: 3000\r\n"
        b'data:{"choices":[{"index":0,"delta":{"content":"A"},"finish_reason":null}]}\r\n\r\n'
        b'data: {"choices":[{"index":0,\ndata: "delta":{"content":"B"},"finish_reason":null}]}\n\n'
        b"data: \n\ndata:[DONE]\r\n\r\n"
    )
    for answer in (answer_of(body), answer_of(*(bytes([byte]) for byte in body))):
        assert (answer.outcome, answer.text, answer.output_events) == (Outcome.OK, "AB", 2)


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ([event(error={"message": "KV cache exhausted"}), DONE], "KV cache exhausted"),
        ([A, B, event(error="cuda oom")], "cuda oom"),
        ([A, B], "cut short"),
        ([], "empty"),
        ([b'{"error": {"message": "bad"}}'], "bad"),
        ([b"event: error\ndata: {", b'"message":"overloaded"}\n\n'], "overloaded"),
        ([b"event: error\n\n"], "error"),
        ([A, STOP, b'data: {"choi'], "not valid JSON"),
        ([A, b"data: oops\n\n", STOP, DONE], "not valid JSON"),
        ([DONE], "without an answer"),
        ([b"<html>login</html>"], "web page"),
        ([b'{"choices": []}'], "no choice"),
        ([b'{"detail": "Not Found"}'], "Not Found"),
        ([b"\n \n"], "empty"),
    ],
)
def test_a_failure_inside_a_200_is_never_a_success(parts: list[bytes], words: str) -> None:
    answer = answer_of(*parts)
    assert answer.outcome is Outcome.STREAM_ERROR
    assert words in (answer.error or "")
    assert answer.output_tokens is None


@pytest.mark.parametrize(
    "parts",
    [
        [A, STOP],
        [A, b"data: null\n\n", event({}, "stop", object=None), DONE],
        [A, STOP, b"data: [DONE]"],
        [A, DONE],
        [A, STOP, DONE, event(error="late"), b"garbage"],
        [b"\xef\xbb\xbf" + A, STOP, DONE],
    ],
)
def test_odd_ends_of_a_whole_answer_are_a_success(parts: list[bytes]) -> None:
    answer = answer_of(*parts)
    assert (answer.outcome, answer.text, answer.error) == (Outcome.OK, "A", None)


def test_an_answer_of_several_choices_is_whole_when_all_have_finished() -> None:
    def choice(index: int, reason: str | None) -> bytes:
        return (
            b"data: "
            + json.dumps({"choices": [{"index": index, "delta": {"content": "x"}, "finish_reason": reason}]}).encode()
            + b"\n\n"
        )

    assert answer_of(choice(0, None), choice(1, "stop"), choice(0, "stop")).outcome is Outcome.OK
    assert answer_of(choice(0, None), choice(1, "stop")).outcome is Outcome.STREAM_ERROR


def test_usage_of_0_beside_output_counts_as_missing() -> None:
    answer = answer_of(A, B, STOP, event(usage={"prompt_tokens": 5, "completion_tokens": 0}), DONE)
    assert (answer.output_tokens, answer.token_source, answer.prompt_tokens) == (2, "events", 5)


def test_a_lost_connection_after_done_changes_nothing() -> None:
    answer = Answer()
    answer.sent(0)
    answer.begin(200, {}, 0)
    answer.feed(A + DONE, MS)
    answer.lose("reset", 2 * MS)
    assert (answer.outcome, answer.t_end_ns) == (Outcome.OK, MS)


def test_a_json_answer_has_tokens_but_no_first_token() -> None:
    answer = answer_of(
        b'{"choices":[{"message":{"content":"ab"},"finish_reason":"stop"}],"usage":{"completion_tokens":2}}'
    )
    assert (answer.outcome, answer.output_tokens, answer.output_events) == (Outcome.OK, 2, 1)
    assert (answer.t_first_ns, answer.t_last_ns, answer.streamed) == (None, None, False)


@pytest.mark.parametrize(
    ("status", "outcome"),
    [(429, Outcome.REFUSED), (503, Outcome.REFUSED), (400, Outcome.HTTP_ERROR), (500, Outcome.HTTP_ERROR)],
)
def test_a_status_decides_whatever_the_body_looks_like(status: int, outcome: Outcome) -> None:
    for body in (A + DONE, b"", b'{"error":{"message":"no"}}', b"x" * 1_000_000):
        answer = answer_of(body, status=status, headers={b"retry-after": b"20"})
        assert (answer.outcome, answer.retry_after, answer.output_events) == (outcome, "20", 0)
        assert str(status) in (answer.error or "")


def test_a_redirect_names_the_place_without_its_query() -> None:
    answer = answer_of(b"", status=308, headers={b"location": b"https://h/v1?key=s"})
    assert answer.outcome is Outcome.HTTP_ERROR
    assert "https://h/v1;" in (answer.error or "")
    assert "key=s" not in (answer.error or "")


@pytest.mark.parametrize("streamed", [True, False])
def test_what_was_said_is_the_text_without_its_thoughts(streamed: bool) -> None:
    if streamed:
        thoughts = [event({"reasoning_content": f"t{n} "}) for n in range(3)]
        answer = answer_of(*thoughts, *[event({"content": f"a{n} "}) for n in range(3)], STOP, DONE)
    else:
        message = {"role": "assistant", "reasoning_content": "t0 t1 t2 ", "content": "a0 a1 a2 "}
        answer = answer_of(
            json.dumps({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}).encode()
        )
    assert answer.outcome is Outcome.OK
    assert sorted(answer.text.split()) == ["a0", "a1", "a2", "t0", "t1", "t2"]
    assert answer.said == "a0 a1 a2 "
