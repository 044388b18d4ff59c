"""Makes request bodies: unique prompts of the dealt lengths. Every prompt begins, after a shared prefix if the mix has
one, with a nonce of the operating system's randomness, so that no cache has seen it before.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from workers.loadgen.calibration import Calibrator
from workers.loadgen.deal import Dealt
from workers.loadgen.plan import Plan
from workers.loadgen.prompt_files import FilePrompt
from workers.loadgen.words import Text

_NONCE_HEX = 12


class Prepared(msgspec.Struct, frozen=True):
    """A request ready to be sent. `words` counts a generated prompt's words without the nonce; 0 for a file's prompt.

    `planned_input_tokens` includes the shared prefix.
    """

    dealt: Dealt
    request_id: str
    body: bytes
    words: int
    planned_input_tokens: int | None
    planned_output_tokens: int | None


class PromptMaker:
    def __init__(self, plan: Plan, calibrator: Calibrator, files: Mapping[int, Sequence[FilePrompt]]) -> None:
        self._name = os.urandom(4).hex()
        self._made = 0
        self._text = Text(plan.seed)
        self._calibrator = calibrator
        self._files = files
        self._chat = plan.protocol == "openai-chat"
        self._prefix_tokens = plan.mix.shared_prefix_tokens
        head = {"model": plan.model, "messages" if self._chat else "prompt": None}
        options = {"stream": True, "stream_options": {"include_usage": True}} | plan.request
        kept = {key: value for key, value in options.items() if value is not None}
        self._head = msgspec.json.encode(head).removesuffix(b"null}")
        self._tail = b"," + msgspec.json.encode(kept).removeprefix(b"{")

    def make(self, dealt: Dealt) -> Prepared:
        """A slice of a text and two encodings: microseconds."""
        # Of this process, and counted: a log of a million random names would be half names.
        request_id = f"{self._name}{self._made:08x}"
        self._made = (self._made + 1) & 0xFFFFFFFF
        nonce = os.urandom(_NONCE_HEX // 2).hex()
        if dealt.class_index in self._files:
            prompts = self._files[dealt.class_index]
            prompt = prompts[dealt.place % len(prompts)]
            output_tokens = prompt.max_tokens or dealt.output_tokens
            content = self._from_file(prompt, nonce)
            return Prepared(dealt, request_id, self._body(content, output_tokens), 0, None, output_tokens)
        assert dealt.input_tokens is not None
        input_tokens = self._prefix_tokens + dealt.input_tokens
        words = self._calibrator.words_for(input_tokens)
        prefix_words = min(words, self._prefix_words())
        start = int(nonce, 16)
        text = self._text.cut(0, prefix_words) + nonce.encode() + b" " + self._text.cut(start, words - prefix_words)
        content = b'"' + text.rstrip() + b'"'
        if self._chat:
            content = b'[{"role":"user","content":' + content + b"}]"
        body = self._body(content, dealt.output_tokens)
        return Prepared(dealt, request_id, body, words, input_tokens, dealt.output_tokens)

    def _prefix_words(self) -> int:
        # Overhead (template and nonce) is counted once, in the whole prompt, and not in the prefix.
        return round(self._prefix_tokens * self._calibrator.model.words_per_token)

    def _body(self, content: bytes, output_tokens: int | None) -> bytes:
        limit = b',"max_tokens":%d' % output_tokens if output_tokens is not None else b""
        return self._head + content + limit + self._tail

    def _from_file(self, prompt: FilePrompt, nonce: str) -> bytes:
        if prompt.messages is None:
            text = f"{nonce} {prompt.prompt}"
            return msgspec.json.encode([{"role": "user", "content": text}] if self._chat else text)
        return msgspec.json.encode([_mark(prompt.messages[0], nonce), *prompt.messages[1:]])


class PreparedRequests:
    """Requests in the dealt order, made before they are due; at most `limit` of them (null: endless)."""

    def __init__(self, dealt: Iterator[Dealt], maker: PromptMaker, ahead: int, limit: int | None) -> None:
        self._dealt = dealt
        self._maker = maker
        self._ahead = ahead
        self._left = limit
        self._ready: deque[Prepared] = deque()
        self.refill()

    def refill(self) -> None:
        while len(self._ready) < self._ahead:
            self._ready.append(self._maker.make(next(self._dealt)))

    def remake(self) -> None:
        """With what the calibration knows now."""
        self._ready = deque(self._maker.make(prepared.dealt) for prepared in self._ready)

    def take(self) -> Prepared | None:
        """Null when the limit is reached."""
        if self._left is not None:
            if self._left == 0:
                return None
            self._left -= 1
        if not self._ready:
            self.refill()
        return self._ready.popleft()


def _mark(message: dict[str, Any], nonce: str) -> dict[str, Any]:
    """The first message with the nonce before its text; content parts get one more part."""
    content = message.get("content")
    if isinstance(content, list):
        return message | {"content": [{"type": "text", "text": nonce}, *content]}
    return message | {"content": f"{nonce} {content or ''}"}
