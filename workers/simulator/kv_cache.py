"""The paged KV cache: how many blocks of tokens are free. Knows no sequences; they keep their own counts."""

from __future__ import annotations


class PagedCache:
    """`blocks` blocks of `block_tokens` tokens. Any free block serves anyone, so that only counts matter."""

    def __init__(self, blocks: int, block_tokens: int) -> None:
        self.blocks = blocks
        self.block_tokens = block_tokens
        self.free = blocks

    @property
    def usage(self) -> float:
        """The share in use, 0 to 1."""
        return 1 - self.free / self.blocks

    def grow(self, held: int, tokens: int) -> int | None:
        """Blocks that a sequence of `tokens` tokens holds, when it held `held` before; None, and nothing taken, when
        too few are free."""
        needed = -(-tokens // self.block_tokens)
        if needed - held > self.free:
            return None
        self.free -= max(0, needed - held)
        return max(needed, held)

    def release(self, held: int) -> None:
        self.free += held
