"""Makes what tells a prompt from every other one: random text, of the operating system's randomness."""

from __future__ import annotations

import math
import os
from collections import Counter
from typing import Protocol

from workers.loadgen.words import Vocabulary

_BITS = 40
_HEX_BYTES = 6
# So many more than `_BITS` that the remainders of a division are as good as even.
_WORD_BYTES = 16


class Nonce(Protocol):
    def make(self, room: int) -> tuple[bytes, int]:
        """A new one, followed by a space, and its cost, which is at most `room`."""


class HexNonce:
    """Digits, whose tokens are unknown: their cost is counted with what surrounds a prompt."""

    def make(self, room: int) -> tuple[bytes, int]:
        return os.urandom(_HEX_BYTES).hex().encode() + b" ", 0


class WordNonce:
    """Words of one cost. A prompt too short for all of them gets as many as it holds, and may be met again."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        (self._cost, alike), *_ = Counter(vocabulary.costs).most_common(1)
        pairs = zip(vocabulary.words, vocabulary.costs, strict=True)
        self._words = [word.encode() + b" " for word, cost in pairs if cost == self._cost]
        self._count = math.ceil(_BITS / math.log2(alike))

    def make(self, room: int) -> tuple[bytes, int]:
        return self.of(int.from_bytes(os.urandom(_WORD_BYTES), "big"), room)

    def of(self, number: int, room: int) -> tuple[bytes, int]:
        """As `make`, but of so big a number: always the same."""
        # One word's room stays for other words: together they can cost what no number of these does.
        count = max(0, min(self._count, room // self._cost - 1))
        chosen = []
        for _ in range(count):
            number, place = divmod(number, len(self._words))
            chosen.append(self._words[place])
        return b"".join(chosen), count * self._cost
