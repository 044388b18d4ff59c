from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from workers.simulator.kv_cache import PagedCache


def test_a_block_is_taken_for_every_started_one() -> None:
    cache = PagedCache(blocks=4, block_tokens=16)
    assert cache.grow(0, 17) == 2
    assert cache.grow(2, 32) == 2
    assert cache.free == 2
    assert cache.usage == 0.5


def test_nothing_is_taken_when_too_little_is_free() -> None:
    cache = PagedCache(blocks=2, block_tokens=16)
    assert cache.grow(0, 33) is None
    assert cache.free == 2


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(1, 200)), max_size=60))
def test_blocks_never_leak_and_never_exceed(steps: list[tuple[int, int]]) -> None:
    """Five holders grow to random lengths; one that gets no room gives everything back."""
    cache = PagedCache(blocks=20, block_tokens=16)
    held = [0] * 5
    for holder, tokens in steps:
        grown = cache.grow(held[holder], tokens)
        if grown is None:
            cache.release(held[holder])
        held[holder] = grown or 0
        assert cache.free + sum(held) == cache.blocks
        assert cache.free >= 0
