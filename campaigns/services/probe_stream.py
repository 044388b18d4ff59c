"""Sends one small streamed request and reports what came back; whether that is good enough is decided elsewhere."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import httpx

from campaigns.services.address import TargetAddress
from campaigns.services.probe_http import LIMITS, NoAnswer, answering, timeouts
from workers.loadgen.answer import Answer, Outcome

ASKED_TOKENS = 16
PROMPT = "Count from one to one hundred, in words."
# Not every server knows these fields; without them it can still be measured. The least common first.
OPTIONAL_FIELDS: dict[str, Any] = {
    "ignore_eos": True,
    "stream_options": {"include_usage": True},
    "temperature": 0,
}
_WRONG_PATH = "Check the address: it should lead to the root of an OpenAI-compatible API, often ending in /v1."
HINTS = {
    401: "Enter a valid API key for this target.",
    403: "Use a key that may use this model.",
    404: _WRONG_PATH,
    405: _WRONG_PATH,
    429: "The server or a gateway limits the rate: wait, or raise the limit before measuring.",
    503: "The server is overloaded or still loading: try again when it is idle.",
}


@dataclass(frozen=True, slots=True)
class StreamSeen:
    """What a streamed request was answered. `error` is empty when the whole answer came and was a stream; else `hint`
    says what to do. `status` is null when there was no answer at all."""

    url: str
    status: int | None
    error: str = ""
    hint: str = ""
    output_events: int = 0
    output_tokens: int = 0
    token_source: str | None = None
    finish_reason: str | None = None
    first_output_ms: float | None = None
    unsupported_fields: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        return not self.error


async def try_stream(client: httpx.AsyncClient, address: TargetAddress) -> StreamSeen:
    """A streamed request; optional fields that the server refuses are left out, one after the other. All of that
    takes at most `LIMITS.stream_s`."""
    dropped: list[str] = []
    deadline = asyncio.get_running_loop().time() + LIMITS.stream_s
    while True:
        seen = await _send(client, address, tuple(dropped), deadline)
        unknown = _unknown_field(seen, dropped)
        if unknown is None:
            return seen
        dropped.append(unknown)


async def _send(
    client: httpx.AsyncClient, address: TargetAddress, without: tuple[str, ...], deadline: float
) -> StreamSeen:
    url = address.request_url
    answer = Answer()
    request = client.build_request(
        "POST",
        url,
        json=_body(address, without),
        headers=address.auth_headers(),
        timeout=timeouts(LIMITS.first_byte_s),
    )
    answer.sent(time.monotonic_ns())
    try:
        async with answering(url, LIMITS.first_byte_s, LIMITS.stream_s), asyncio.timeout_at(deadline):
            response = await client.send(request, stream=True)
            try:
                await _read(response, answer)
            finally:
                await response.aclose()
    except NoAnswer as error:
        return _cut(url, answer, error)
    return _seen(url, answer, without)


async def _read(response: httpx.Response, answer: Answer) -> None:
    headers = {name.lower(): value for name, value in response.headers.raw}
    answer.begin(response.status_code, headers, time.monotonic_ns())
    async for part in response.aiter_bytes():
        answer.feed(part, time.monotonic_ns())
        if answer.outcome is not None:
            return
    answer.finish(time.monotonic_ns())


def _seen(url: str, answer: Answer, without: tuple[str, ...]) -> StreamSeen:
    status = answer.http_status
    if answer.outcome is not Outcome.OK:
        hint = HINTS.get(status or 0, "See the server's log for the reason.")
        return StreamSeen(url, status, answer.error or "no answer", hint)
    if not answer.streamed:
        return StreamSeen(
            url,
            status,
            "the server answered in one piece (JSON) though a stream was asked for",
            "Let the server, and any gateway before it, honour stream: true. Without a stream there is no TTFT.",
        )
    if answer.t_first_ns is None or answer.t_sent_ns is None:
        return StreamSeen(
            url,
            status,
            "the stream ended well but held no output",
            "See whether the model answers anything to a plain prompt.",
        )
    return StreamSeen(
        url,
        status,
        output_events=answer.output_events,
        output_tokens=answer.output_tokens or 0,
        token_source=answer.token_source,
        finish_reason=answer.finish_reason,
        first_output_ms=(answer.t_first_ns - answer.t_sent_ns) / 1e6,
        unsupported_fields=without,
    )


def _cut(url: str, answer: Answer, error: NoAnswer) -> StreamSeen:
    if answer.http_status is None:
        return StreamSeen(url, None, error.detail, error.hint)
    return StreamSeen(
        url,
        answer.http_status,
        f"the stream broke off after {answer.output_events} output events: {error.detail}",
        "See the server's log, and whether a gateway before it cuts or holds back streams.",
    )


def _body(address: TargetAddress, without: Collection[str]) -> dict[str, Any]:
    chat = address.protocol == "openai-chat"
    return {
        "model": address.model,
        **({"messages": [{"role": "user", "content": PROMPT}]} if chat else {"prompt": PROMPT}),
        "max_tokens": ASKED_TOKENS,
        "stream": True,
        **{name: value for name, value in OPTIONAL_FIELDS.items() if name not in without},
    }


def _unknown_field(seen: StreamSeen, dropped: Collection[str]) -> str | None:
    """The optional field that a refusal names; the least common one when the first refusal names none."""
    if seen.status not in {400, 422}:
        return None
    left = [name for name in OPTIONAL_FIELDS if name not in dropped]
    return next((name for name in left if name in seen.error), None if dropped else left[0])
