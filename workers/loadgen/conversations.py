"""What a conversation says: the turns to come, and the prompt that holds all that was said before.

Knows neither how long a text is in words nor when a turn is due.
"""

from __future__ import annotations

from random import Random

import msgspec

from workers.loadgen.lengths import draw
from workers.loadgen.plan import TrafficClass


class Turn(msgspec.Struct, frozen=True):
    """A turn after the first. `text` is a file's; null: to be made, of `input_tokens`. Null `output_tokens`: as the
    conversation was dealt.
    """

    text: str | None
    input_tokens: int | None
    output_tokens: int | None


def drawn_turns(one: TrafficClass, seed: int, place: int) -> tuple[Turn, ...]:
    """Of the class's `place`th conversation, the same every time; empty without `turns`."""
    if one.turns is None or one.input_tokens is None or one.output_tokens is None:
        return ()
    random = Random(f"{seed} {one.name} turns {place}")
    later = draw(one.turns, random) - 1
    return tuple(Turn(None, draw(one.input_tokens, random), draw(one.output_tokens, random)) for _ in range(later))


def opening(text: bytes, chat: bool) -> bytes:
    """The first turn as JSON: messages for chat, else a prompt. `text` needs no escaping."""
    return b'[{"role":"user","content":"%b"}]' % text if chat else b'"%b"' % text


def continued(before: bytes, said: str, text: bytes) -> bytes:
    """`before`, the answer to it, and the next turn's text, which is what `quoted` gave, as JSON."""
    answer = quoted(said)
    if before.startswith(b"["):
        answered = b',{"role":"assistant","content":"%b"},{"role":"user","content":"%b"}]' % (answer, text)
        return before[:-1] + answered
    return before[:-1] + answer + b" " + text + b'"'


def quoted(text: str) -> bytes:
    """As it stands between the quotes of a JSON string; half a surrogate pair, which servers do send, becomes a `?`."""
    return msgspec.json.encode(text.encode("utf-8", "replace").decode())[1:-1]
