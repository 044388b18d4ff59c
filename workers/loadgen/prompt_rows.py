"""Reads one row of a file of prompts: a prompt, messages, a user's turns, or a conversation as it was recorded.

A recorded conversation gives its user's texts and how long its answers were; what is said again are the server's own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypeAlias

import msgspec

from workers.loadgen.checking import shown
from workers.loadgen.conversations import Turn, quoted
from workers.loadgen.file_rows import Parse
from workers.loadgen.lengths import Tokens

_ROLES = {
    "system": "system",
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "gpt": "assistant",
    "chatgpt": "assistant",
    "bing": "assistant",
    "bard": "assistant",
}
_TEXT = b'[{"content":"'
_PARTS = b'[{"content":['

# How many tokens each of these answers has; null: not known.
CountAnswers: TypeAlias = Callable[[Sequence[str]], Sequence[int | None]]
_NotEmpty = msgspec.Meta(min_length=1)


class FilePrompt(msgspec.Struct, frozen=True):
    """A prompt as JSON, in two parts: a nonce and a space stand between them. Null `output_tokens`: the class's."""

    before: bytes
    after: bytes
    output_tokens: int | None
    later: tuple[Turn, ...] = ()


class _Said(msgspec.Struct):
    speaker: str = msgspec.field(name="from")
    value: str


class _Row(msgspec.Struct):
    prompt: str | None = None
    messages: Annotated[list[dict[str, Any]], _NotEmpty] | None = None
    turns: Annotated[list[str], _NotEmpty] | None = None
    conversations: list[_Said] | None = None
    max_tokens: Tokens | None = None


_KINDS = ("prompt", "messages", "turns", "conversations")
_decode = msgspec.json.Decoder(_Row).decode


def prompt_parser(chat: bool, count_answers: CountAnswers) -> Parse[FilePrompt]:
    """Null for a conversation in which no user says anything: collections hold some."""

    def parse(data: bytes) -> FilePrompt | None:
        row = _decode(data)
        if sum(getattr(row, kind) is not None for kind in _KINDS) != 1:
            raise ValueError(f"must have exactly one of {', '.join(_KINDS)}")
        said = _recorded(row)
        if said is not None:
            system, asked, answers = _exchanges(said)
            lengths = count_answers(answers) if row.max_tokens is None else [row.max_tokens] * len(asked)
            return _conversation(chat, system, asked, lengths) if asked else None
        if row.messages is not None:
            if not chat:
                raise ValueError("messages need the protocol openai-chat")
            return FilePrompt(*_around_nonce(row.messages), row.max_tokens)
        asked = row.turns or [row.prompt or ""]
        return _conversation(chat, "", asked, [row.max_tokens] * len(asked))

    return parse


def _recorded(row: _Row) -> list[tuple[str, str]] | None:
    """(role, text) of a conversation that was answered; null where the row is none."""
    if row.conversations is not None:
        return [
            (_role(one.speaker, f"conversations[{place}].from"), one.value)
            for place, one in enumerate(row.conversations)
        ]
    if row.messages is None or row.messages[-1].get("role") != "assistant":
        return None
    said: list[tuple[str, str]] = []
    for place, message in enumerate(row.messages):
        content = message.get("content")
        if not isinstance(content, str):
            raise ValueError(f"messages[{place}].content must be text, not {shown(content)}")
        said.append((_role(message.get("role"), f"messages[{place}].role"), content))
    return said


def _role(name: object, path: str) -> str:
    role = _ROLES.get(name) if isinstance(name, str) else None
    if role is None:
        raise ValueError(f"{path} must be one of {', '.join(_ROLES)}, not {shown(name)}")
    return role


def _exchanges(said: list[tuple[str, str]]) -> tuple[str, list[str], list[str]]:
    """What the system says, the user's texts, and the answer to each, empty where none came."""
    system, asked, answers = "", [], []
    for role, text in said:
        if role == "user" and text.strip():
            asked.append(text)
            answers.append("")
        elif role == "assistant" and asked:
            answers[-1] += text
        elif role == "system":
            if asked:
                raise ValueError("what the system says must come before what the user says")
            system += text
    return system, asked, answers


def _conversation(chat: bool, system: str, asked: list[str], lengths: Sequence[int | None]) -> FilePrompt:
    first, *others = asked
    length, *later_lengths = lengths
    later = tuple(Turn(text, None, tokens) for text, tokens in zip(others, later_lengths, strict=True))
    if chat:
        messages = [{"role": "system", "content": system}] if system else []
        return FilePrompt(*_around_nonce([*messages, {"role": "user", "content": first}]), length, later)
    text = f"{system}\n\n{first}" if system else first
    return FilePrompt(b'"', quoted(text) + b'"', length, later)


def _around_nonce(messages: list[dict[str, Any]]) -> tuple[bytes, bytes]:
    """The messages in two parts: between them is the beginning of the first one's text, or content parts' first."""
    first, *others = messages
    content = first.get("content") or ""
    encoded = msgspec.json.encode([{"content": None} | first | {"content": content}, *others])
    if isinstance(content, str):
        return _TEXT, encoded.removeprefix(_TEXT)
    return _PARTS + b'{"type":"text","text":"', b'"},' + encoded.removeprefix(_PARTS)
