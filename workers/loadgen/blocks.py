"""Texts of the blocks that a trace's requests share: one text for one id, wherever in a stage it appears. A server's
prefix cache then finds again what the traced one could.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

from workers.loadgen.nonces import WordNonce
from workers.loadgen.words import Text, Vocabulary

_NUMBER_BYTES = 24


class Blocks:
    """`stage` is a number that its processes share and other stages do not: what they left in a cache is not met."""

    def __init__(self, stage: int, text: Text, vocabulary: Vocabulary) -> None:
        self._stage = stage
        self._text = text
        self._nonce = WordNonce(vocabulary)

    def joined(self, ids: Sequence[int], reading: int, block_cost: int, cost: int) -> bytes:
        """So much text in all, `block_cost` a block but for the last. `reading` counts how often the trace was begun
        anew: its blocks are then others.
        """
        parts: list[bytes] = []
        for place, one in enumerate(ids, 1):
            own = min(block_cost, cost) if place < len(ids) else cost
            parts.append(self._block(f"{self._stage} {reading} {one}", own))
            cost -= own
        return b"".join(parts)

    def _block(self, name: str, cost: int) -> bytes:
        number = int.from_bytes(blake2b(name.encode(), digest_size=_NUMBER_BYTES).digest(), "big")
        number, start = divmod(number, 1 << 32)
        mark, mark_cost = self._nonce.of(number, cost)
        return mark + self._text.cut(start, cost - mark_cost)
