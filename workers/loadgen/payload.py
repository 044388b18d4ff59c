"""Reads one JSON object of an OpenAI-style answer: does it carry output, usage, a finish reason or an error?

Any bytes give a reading, never an exception. Knows nothing of streams, times or outcomes.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

Struct = msgspec.Struct
# Of objects in an error's message.
_DEPTH_MAX = 8


class Usage(Struct, frozen=True):
    """Token counts that the server reported; null where it gave none."""

    prompt_tokens: int | None
    completion_tokens: int | None
    cached_tokens: int | None
    reasoning_tokens: int | None


class Reading(Struct):
    """What one object said. `output`: some choice carried a part of the answer; `text` is that part, where it is text,
    and `said` what of it is no thought. `visible`: a part that is no thought, text or not.

    `seen` and `finished` are bit sets of choices (by index modulo 64); `error` is the server's message.
    """

    output: bool = False
    visible: bool = False
    text: str = ""
    said: str = ""
    finish_reason: str | None = None
    seen: int = 0
    finished: int = 0
    usage: Usage | None = None
    error: str | None = None


# Wire shapes: unknown fields are skipped, and every field that servers are known to fill with other types is `Any`.
class _Message(Struct):
    content: Any = None
    reasoning_content: Any = None
    reasoning: Any = None
    refusal: Any = None
    tool_calls: Any = None
    function_call: Any = None


class _Choice(Struct):
    index: Any = 0
    delta: _Message | None = None
    message: _Message | None = None
    text: Any = None
    finish_reason: Any = None


class _Object(Struct):
    object: Any = None
    choices: list[_Choice] | None = None
    usage: Any = None
    error: Any = None
    message: Any = None


_decode = msgspec.json.Decoder(_Object | None).decode


def read_payload(data: bytes) -> Reading | None:
    """The reading of one event's data or of a whole JSON answer; null for JSON null, which says nothing."""
    try:
        document = _decode(data)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return _read_loosely(data)
    return _read(document) if document is not None else None


def error_text(data: bytes) -> str:
    """What an error body says, in the server's words: the message in it, else its text."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return data.decode("utf-8", "replace").strip()
    return _message_of(document) or data.decode("utf-8", "replace").strip()


def _read_loosely(data: bytes) -> Reading | None:
    """For what strict JSON refuses but servers send: broken UTF-8, raw control characters, lone surrogates."""
    try:
        document = json.loads(data.decode("utf-8", "replace"), strict=False)
    except (ValueError, RecursionError):
        return Reading(error=f"an event is not valid JSON: {_shown(data)}")
    try:
        typed = msgspec.convert(document, _Object | None)
    except (msgspec.MsgspecError, RecursionError):
        words = document if isinstance(document, str) else ""
        return Reading(error=words or f"an event has an unknown shape: {_shown(data)}")
    return _read(typed) if typed is not None else None


def _read(document: _Object) -> Reading:
    if document.error or document.object == "error":
        return Reading(error=_message_of(document.error) or _message_of(document.message) or "error without a message")
    reading = Reading()
    for choice in document.choices or ():
        bit = 1 << (choice.index & 63) if isinstance(choice.index, int) else 1
        reading.seen |= bit
        if choice.finish_reason:
            reading.finished |= bit
            reading.finish_reason = str(choice.finish_reason)
        part = choice.delta or choice.message
        if part is not None:
            _add_message(reading, part)
        if choice.text:
            _add_text(reading, choice.text)
    if isinstance(document.usage, dict):
        reading.usage = _read_usage(document.usage)
    return reading


def _read_usage(usage: dict[str, Any]) -> Usage:
    return Usage(
        _count(usage.get("prompt_tokens")),
        _count(usage.get("completion_tokens")),
        _count(_detail(usage.get("prompt_tokens_details"), "cached_tokens")),
        _count(_detail(usage.get("completion_tokens_details"), "reasoning_tokens")),
    )


def _detail(details: Any, key: str) -> Any:
    return details.get(key) if isinstance(details, dict) else None


def _add_message(reading: Reading, part: _Message) -> None:
    if part.reasoning_content or part.reasoning:
        _add_thought(reading, part.reasoning_content)
        # Some servers send the same thought under both names.
        if part.reasoning != part.reasoning_content:
            _add_thought(reading, part.reasoning)
    if part.content:
        _add_text(reading, part.content)
    if part.refusal:
        _add_text(reading, part.refusal)
    if part.tool_calls is not None or part.function_call is not None:
        calls = part.tool_calls if isinstance(part.tool_calls, list) else []
        if any(_carries_call(call) for call in [*calls, {"function": part.function_call}]):
            reading.output = reading.visible = True


def _add_thought(reading: Reading, value: Any) -> None:
    if value and isinstance(value, str):
        reading.output = True
        reading.text += value


def _add_text(reading: Reading, value: Any) -> None:
    if isinstance(value, str):
        if value:
            reading.output = reading.visible = True
            reading.text += value
            reading.said += value
    elif isinstance(value, list):
        # Content parts, as Mistral's reasoning models stream them.
        for part in value:
            if isinstance(part, dict):
                _add_text(reading, part.get("text"))
                _add_thoughts(reading, part.get("thinking"))


def _add_thoughts(reading: Reading, value: Any) -> None:
    for part in value if isinstance(value, list) else [value]:
        _add_thought(reading, part.get("text") if isinstance(part, dict) else part)


def _carries_call(call: Any) -> bool:
    function = call.get("function") if isinstance(call, dict) else None
    named = isinstance(function, dict) and (function.get("name") or function.get("arguments"))
    return bool(named or (isinstance(call, dict) and call.get("id")))


def _count(value: Any) -> int | None:
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 2**31:
        return int(value)
    return None


def _message_of(value: Any, depth: int = _DEPTH_MAX) -> str:
    """The words of an error in the shapes that servers use: text, or an object with error, message or detail."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict) and depth:
        for key in ("error", "message", "detail"):
            if value.get(key):
                return _message_of(value[key], depth - 1)
    if value in (None, {}, [], False):
        return ""
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except (RecursionError, ValueError):
        return "an error without words"


def _shown(data: bytes) -> str:
    return data[:80].decode("utf-8", "replace")
