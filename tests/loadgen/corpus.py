"""The corpus of real servers' answers (`streams.json`) and what the generator's record of each must hold."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import msgspec

from workers.loadgen.answer import Answer


class Case(msgspec.Struct, frozen=True):
    """`expect` holds only what is compared: null and notes are left out."""

    name: str
    status: int
    content_type: str
    headers: dict[str, str]
    framing: str
    body_base64: str
    expect: dict[str, Any]

    @property
    def body(self) -> bytes:
        return base64.b64decode(self.body_base64)

    def check(self, answer: Answer) -> None:
        compared = {key: value for key, value in self.expect.items() if key != "note" and value is not None}
        got = {key: getattr(answer, key) for key in compared}
        assert got == compared, answer.error


CASES = msgspec.json.decode((Path(__file__).parent / "streams.json").read_bytes(), type=list[Case])
