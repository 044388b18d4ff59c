"""Deals traffic classes and lengths: seeded shuffled blocks with the mix's exact ratio, every time the same."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import msgspec

from workers.loadgen.lengths import draw
from workers.loadgen.plan import Mix


class Dealt(msgspec.Struct, frozen=True):
    """One request to come. `place` counts the requests of its class from 0; null lengths are the prompt file's."""

    class_index: int
    place: int
    input_tokens: int | None
    output_tokens: int | None


def deal(mix: Mix, seed: int, part: int = 0, parts: int = 1) -> Iterator[Dealt]:
    """Endless. Of `parts` processes each gets every `parts`-th request of the one common sequence."""
    order = Random(f"{seed} order")
    lengths = [Random(f"{seed} {one.name}") for one in mix.classes]
    block = [index for index, times in enumerate(mix.block) for _ in range(times)]
    places = [0] * len(mix.classes)
    number = 0
    while True:
        order.shuffle(block)
        for index in block:
            one, random = mix.classes[index], lengths[index]
            dealt = Dealt(
                index,
                places[index],
                draw(one.input_tokens, random) if one.input_tokens is not None else None,
                draw(one.output_tokens, random) if one.output_tokens is not None else None,
            )
            places[index] += 1
            if number % parts == part:
                yield dealt
            number += 1
