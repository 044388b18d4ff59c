from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from tests.simulator.running import Simulator, simulator

CHAT = {"model": "sim-8b", "messages": [{"role": "user", "content": "one two three"}]}
TEXT = {"model": "sim-8b", "prompt": "one two three"}


def events(running: Simulator, path: str, **body: Any) -> list[Any]:
    """The documents of a stream, which must end in [DONE]."""
    text = running.post(path, stream=True, **body).text
    records = text.removesuffix("\n\n").split("\n\n")
    assert all(record.startswith("data: ") for record in records)
    assert records[-1] == "data: [DONE]"
    return [json.loads(record.removeprefix("data: ")) for record in records[:-1]]


def error_of(response: httpx.Response) -> dict[str, Any]:
    error: dict[str, Any] = response.json()["error"]
    assert error["code"] == response.status_code
    assert error["message"]
    return error


def test_a_chat_streams_its_role_then_its_tokens_then_why_it_ended(fast: Simulator) -> None:
    chunks = events(fast, "/v1/chat/completions", **CHAT, max_tokens=5, ignore_eos=True)
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
    assert deltas[0] == {"role": "assistant", "content": ""}
    assert len(deltas) == 1 + 5 + 1
    assert all(delta["content"].strip() for delta in deltas[1:6])
    assert deltas[6] == {}
    assert [chunk["choices"][0]["finish_reason"] for chunk in chunks] == [None] * 6 + ["length"]
    assert {chunk["object"] for chunk in chunks} == {"chat.completion.chunk"}
    assert len({chunk["id"] for chunk in chunks}) == 1


def test_a_text_completion_streams_text(fast: Simulator) -> None:
    chunks = events(fast, "/v1/completions", **TEXT, max_tokens=4, ignore_eos=True)
    texts = [chunk["choices"][0]["text"] for chunk in chunks]
    assert len(texts) == 5
    assert all(texts[:4]) and texts[4] == ""
    assert chunks[-1]["choices"][0]["finish_reason"] == "length"


def test_usage_comes_last_and_only_when_asked_for(fast: Simulator) -> None:
    asked = CHAT | {"max_tokens": 5, "ignore_eos": True}
    without = events(fast, "/v1/chat/completions", **asked)
    assert all("usage" not in chunk for chunk in without)
    last = events(fast, "/v1/chat/completions", **asked, stream_options={"include_usage": True})[-1]
    assert last["choices"] == []
    assert last["usage"] == {
        "prompt_tokens": 10,
        "completion_tokens": 5,
        "total_tokens": 15,
        "prompt_tokens_details": {"cached_tokens": 0},
    }


def test_an_answer_in_one_piece_is_the_stream_joined(fast: Simulator) -> None:
    asked = CHAT | {"max_tokens": 6, "ignore_eos": True}
    whole = fast.post("/v1/chat/completions", **asked).json()
    streamed = events(fast, "/v1/chat/completions", **asked)
    joined = "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in streamed)
    assert whole["object"] == "chat.completion"
    assert whole["choices"][0]["message"] == {"role": "assistant", "content": joined}
    assert whole["usage"]["completion_tokens"] == 6
    text = fast.post("/v1/completions", **TEXT, max_tokens=6).json()
    assert text["object"] == "text_completion"
    assert text["choices"][0]["text"] == joined


def test_an_answer_that_ends_by_itself_says_stop(fast: Simulator) -> None:
    answer = fast.post("/v1/chat/completions", **CHAT, max_completion_tokens=20_000).json()
    assert answer["choices"][0]["finish_reason"] == "stop"
    assert 0 < answer["usage"]["completion_tokens"] < 20_000


def test_it_says_that_it_is_simulated(fast: Simulator) -> None:
    models = httpx.get(f"{fast.url}/v1/models")
    assert models.headers["server"] == "brimline-simulator"
    [model] = models.json()["data"]
    assert (model["id"], model["owned_by"], model["max_model_len"]) == ("sim-8b", "brimline-simulator", 32_768)
    assert "simulated" in httpx.get(f"{fast.url}/version").json()["version"]
    assert httpx.get(f"{fast.url}/health").status_code == 200


@pytest.mark.parametrize("body", [b"{", b'{"messages": "hello"}', b""])
def test_a_body_that_cannot_be_read_is_a_400(fast: Simulator, body: bytes) -> None:
    response = httpx.post(f"{fast.url}/v1/chat/completions", content=body)
    assert response.status_code == 400
    assert error_of(response)["type"] == "BadRequestError"


def test_an_unknown_model_is_a_404(fast: Simulator) -> None:
    response = fast.post("/v1/chat/completions", **CHAT | {"model": "gpt-9"}, stream=True)
    assert response.status_code == 404
    assert "gpt-9" in error_of(response)["message"]


def test_an_unknown_path_is_a_404_and_a_wrong_method_a_405(fast: Simulator) -> None:
    assert error_of(httpx.get(f"{fast.url}/v1/embeddings"))["code"] == 404
    assert "POST" in error_of(httpx.get(f"{fast.url}/v1/completions"))["message"]


@pytest.fixture(scope="module")
def locked() -> Iterator[Simulator]:
    with simulator("--api-key", "right", "--time-scale", "20") as running:
        yield running


@pytest.mark.parametrize("header", [{}, {"Authorization": "Bearer wrong"}, {"Authorization": "right"}])
def test_without_the_key_everything_of_the_api_is_a_401(locked: Simulator, header: dict[str, str]) -> None:
    assert error_of(httpx.get(f"{locked.url}/v1/models", headers=header))["code"] == 401
    answer = httpx.post(f"{locked.url}/v1/chat/completions", json=CHAT, headers=header)
    assert error_of(answer)["type"] == "AuthenticationError"
    assert "right" not in answer.text


def test_the_key_opens_it_and_the_metrics_are_open(locked: Simulator) -> None:
    header = {"Authorization": "Bearer right"}
    assert httpx.get(f"{locked.url}/v1/models", headers=header).status_code == 200
    assert httpx.get(f"{locked.url}/metrics").status_code == 200


def exchange(running: Simulator, data: bytes) -> bytes:
    """Everything that the server says to `data`, until it closes."""
    host = urlsplit(running.url)
    with socket.create_connection((host.hostname, host.port), timeout=30) as connection:
        connection.sendall(data)
        answer = b""
        while more := connection.recv(65536):
            answer += more
    return answer


def test_requests_sent_ahead_are_answered_in_order(fast: Simulator) -> None:
    body = json.dumps(CHAT | {"max_tokens": 3, "ignore_eos": True}).encode()
    slow = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    answer = exchange(fast, slow + b"GET /version HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert answer.count(b"HTTP/1.1 200 OK") == 2
    assert answer.index(b"chat.completion") < answer.index(b'"version"')


def test_what_is_not_http_is_refused(fast: Simulator) -> None:
    answer = exchange(fast, b"hello there\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"Connection: close" in answer


def test_a_head_without_end_is_refused(fast: Simulator) -> None:
    answer = exchange(fast, b"GET /health HTTP/1.1\r\nX: " + b"y" * 70_000)
    assert answer.startswith(b"HTTP/1.1 431 ")


def test_a_client_that_waits_to_be_told_to_go_on_is_told(fast: Simulator) -> None:
    head = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\nExpect: 100-continue\r\n"
    body = json.dumps(TEXT | {"max_tokens": 1}).encode()
    answer = exchange(fast, head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
    assert answer.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK")
