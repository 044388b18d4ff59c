"""OpenAI's wire shapes: what a request asks for, and the bytes of its answer. Knows no time and no sockets.

Prompt tokens are counted from words, so that anyone can foretell them: a chat costs 3 tokens, and each message 4 and
one for each word (whatever stands between white space); a text prompt costs 1 and one for each word; a prompt of token
ids costs one for each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import msgspec

OWNER = "brimline-simulator"
_CHAT_TOKENS = 3
_MESSAGE_TOKENS = 4
_TEXT_TOKENS = 1
_WORDS = tuple(b" " + word for word in b"no model wrote these words a simulator made them up".split())

FinishReason = Literal["stop", "length"]


class RequestError(Exception):
    """The request cannot be served; becomes an OpenAI error object with `status`."""

    def __init__(self, status: int, message: str, kind: str = "BadRequestError", param: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.body = error_body(status, message, kind, param)


@dataclass(frozen=True, slots=True)
class Asked:
    """What a request asks for. `max_tokens` None: up to the model's limit. `model` None: the one there is."""

    chat: bool
    model: str | None
    prompt_tokens: int
    stream: bool
    include_usage: bool
    max_tokens: int | None
    min_tokens: int
    ignore_eos: bool

    def answer_length(self, natural_tokens: int, max_model_len: int) -> tuple[int, FinishReason]:
        """How many tokens the answer gets and why it ends, for a model that would end it by itself after
        `natural_tokens`. Raises RequestError when prompt and answer do not fit into the model's context."""
        if self.prompt_tokens + (self.max_tokens or 1) > max_model_len:
            asked = f"{self.prompt_tokens} tokens of prompt and {self.max_tokens or 1} of answer"
            raise RequestError(400, f"This model's maximum context length is {max_model_len} tokens, not {asked}.")
        limit = self.max_tokens or max_model_len - self.prompt_tokens
        natural = max(natural_tokens, self.min_tokens)
        return (limit, "length") if self.ignore_eos or natural >= limit else (natural, "stop")


class _StreamOptions(msgspec.Struct):
    include_usage: bool | None = False


class _Part(msgspec.Struct):
    text: str | None = None


class _Message(msgspec.Struct):
    role: str
    content: str | list[_Part] | None = None


class _Common(msgspec.Struct, kw_only=True):
    model: str | None = None
    stream: bool | None = False
    stream_options: _StreamOptions | None = None
    max_tokens: int | None = None
    min_tokens: int | None = 0
    ignore_eos: bool | None = False
    n: int | None = 1


class _Chat(_Common, kw_only=True):
    messages: list[_Message]
    max_completion_tokens: int | None = None


class _Completion(_Common, kw_only=True):
    prompt: str | list[str | int]
    max_tokens: int | None = 16  # OpenAI's default for text completions


_chat_decoder = msgspec.json.Decoder(_Chat)
_completion_decoder = msgspec.json.Decoder(_Completion)


def read_chat(body: bytes) -> Asked:
    """Raises RequestError."""
    chat = _decode(_chat_decoder, body)
    words = sum(_words(message.content) + _MESSAGE_TOKENS for message in chat.messages)
    if not chat.messages:
        raise RequestError(400, "messages must hold at least one message.", param="messages")
    limit = chat.max_completion_tokens if chat.max_completion_tokens is not None else chat.max_tokens
    return _asked(chat, True, words + _CHAT_TOKENS, limit)


def read_completion(body: bytes) -> Asked:
    """Raises RequestError."""
    asked = _decode(_completion_decoder, body)
    prompt = asked.prompt
    if isinstance(prompt, list) and any(isinstance(part, str) for part in prompt):
        if len(prompt) > 1:
            raise RequestError(400, "The simulator takes one prompt a request.", param="prompt")
        prompt = str(prompt[0])
    tokens = len(prompt.split()) + _TEXT_TOKENS if isinstance(prompt, str) else len(prompt)
    if tokens == 0:
        raise RequestError(400, "prompt must hold at least one token.", param="prompt")
    return _asked(asked, False, tokens, asked.max_tokens)


def _decode(decoder: msgspec.json.Decoder[Any], body: bytes) -> Any:
    try:
        return decoder.decode(body)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise RequestError(400, f"The body cannot be read: {error}") from None


def _asked(request: _Common, chat: bool, prompt_tokens: int, max_tokens: int | None) -> Asked:
    if max_tokens is not None and max_tokens < 1:
        raise RequestError(400, f"max_tokens must be at least 1, not {max_tokens}.", param="max_tokens")
    min_tokens = request.min_tokens or 0
    if min_tokens < 0 or (max_tokens is not None and min_tokens > max_tokens):
        raise RequestError(400, "min_tokens must be from 0 to max_tokens.", param="min_tokens")
    if request.n not in (None, 1):
        raise RequestError(400, "The simulator gives one answer a request: n must be 1.", param="n")
    if request.stream_options is not None and not request.stream:
        raise RequestError(400, "stream_options may only be set when stream is true.", param="stream_options")
    usage = bool(request.stream_options and request.stream_options.include_usage)
    return Asked(
        chat,
        request.model,
        prompt_tokens,
        bool(request.stream),
        usage,
        max_tokens,
        min_tokens,
        bool(request.ignore_eos),
    )


def _words(content: str | list[_Part] | None) -> int:
    if isinstance(content, str):
        return len(content.split())
    return sum(len((part.text or "").split()) for part in content or ())


class AnswerBytes:
    """The bytes of one answer. A stream is `role` (chat only), `token` each, `end`; else it is `whole`."""

    def __init__(self, asked: Asked, number: str, model: str, created: int) -> None:
        self._asked = asked
        self._shape: dict[str, Any] = {
            "id": f"chatcmpl-{number}" if asked.chat else f"cmpl-{number}",
            "object": "chat.completion.chunk" if asked.chat else "text_completion",
            "created": created,
            "model": model,
        }
        self._head, self._tail = self._event(self._choice(" ")).split(b'" "')

    def role(self) -> bytes:
        """Empty for a text completion."""
        if not self._asked.chat:
            return b""
        return self._event({"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None})

    def token(self, place: int) -> bytes:
        return b'%b"%b"%b' % (self._head, _WORDS[place % len(_WORDS)], self._tail)

    def end(self, output_tokens: int, reason: FinishReason) -> bytes:
        events = self._event(self._choice(None, reason))
        if self._asked.include_usage:
            events += _sse(self._shape | {"choices": [], "usage": self._usage(output_tokens)})
        return events + b"data: [DONE]\n\n"

    def whole(self, output_tokens: int, reason: FinishReason) -> bytes:
        text = b"".join(_WORDS[place % len(_WORDS)] for place in range(output_tokens)).decode()
        choice: dict[str, Any] = {"index": 0, "logprobs": None, "finish_reason": reason}
        choice |= {"message": {"role": "assistant", "content": text}} if self._asked.chat else {"text": text}
        name = "chat.completion" if self._asked.chat else "text_completion"
        shape = self._shape | {"object": name, "choices": [choice], "usage": self._usage(output_tokens)}
        return msgspec.json.encode(shape)

    def _choice(self, text: str | None, reason: FinishReason | None = None) -> dict[str, Any]:
        choice: dict[str, Any] = {"index": 0}
        if self._asked.chat:
            choice["delta"] = {} if text is None else {"content": text}
        else:
            choice["text"] = text or ""
        return choice | {"logprobs": None, "finish_reason": reason}

    def _event(self, choice: dict[str, Any]) -> bytes:
        return _sse(self._shape | {"choices": [choice]})

    def _usage(self, output_tokens: int) -> dict[str, Any]:
        prompt_tokens = self._asked.prompt_tokens
        return {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": output_tokens,
            "total_tokens": prompt_tokens + output_tokens,
            "prompt_tokens_details": {"cached_tokens": 0},  # no scenario has a prefix cache
        }


def models_body(model: str, max_model_len: int, created: int) -> bytes:
    entry = {"id": model, "object": "model", "created": created, "owned_by": OWNER, "max_model_len": max_model_len}
    return msgspec.json.encode({"object": "list", "data": [entry]})


def error_body(status: int, message: str, kind: str, param: str | None = None) -> bytes:
    return msgspec.json.encode({"error": {"message": message, "type": kind, "param": param, "code": status}})


def _sse(document: dict[str, Any]) -> bytes:
    return b"data: " + msgspec.json.encode(document) + b"\n\n"
