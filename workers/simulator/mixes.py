"""Traffic mixes for the ground truth: classes with weights and fixed lengths, and the order in which they are dealt."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import repeat
from random import Random
from typing import Annotated

import msgspec

_Whole = Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]


class MixError(Exception):
    """The mix cannot be used; the message says why."""


class TrafficClass(msgspec.Struct, frozen=True):
    name: str
    weight: Annotated[int, msgspec.Meta(ge=1, le=1000)]
    input_tokens: _Whole
    output_tokens: _Whole


class Mix(msgspec.Struct, frozen=True):
    classes: Annotated[tuple[TrafficClass, ...], msgspec.Meta(min_length=1, max_length=100)]


MIXES = {
    "default": Mix(
        (
            TrafficClass("short", 3, 50, 200),
            TrafficClass("medium", 4, 500, 500),
            TrafficClass("long", 3, 2000, 800),
        )
    ),
    "small": Mix(
        (
            TrafficClass("short", 3, 50, 16),
            TrafficClass("medium", 4, 100, 24),
            TrafficClass("long", 3, 200, 40),
        )
    ),
}


def read_mix(text: str) -> Mix:
    """A mix by name, or as JSON in the load generator's shape with whole numbers as lengths. Raises MixError."""
    if text in MIXES:
        return MIXES[text]
    try:
        mix = msgspec.json.decode(text.encode(), type=Mix)
    except msgspec.DecodeError as error:
        raise MixError(f"--mix takes {', '.join(MIXES)}, or a mix as JSON with fixed lengths: {error}") from None
    if len({one.name for one in mix.classes}) < len(mix.classes):
        raise MixError("--mix must hold classes with different names")
    return mix


def deal(mix: Mix, seed: int) -> Iterator[TrafficClass]:
    """Endless: shuffled blocks, each with the mix's exact ratio."""
    divisor = math.gcd(*(one.weight for one in mix.classes))
    block = [one for one in mix.classes for _ in range(one.weight // divisor)]
    random = Random(seed)
    for _ in repeat(None):
        yield from random.sample(block, len(block))
