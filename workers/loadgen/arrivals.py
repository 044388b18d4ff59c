"""When requests are due, in seconds from the start: a closed loop's first sends and an open loop's arrivals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random

from workers.loadgen.plan import OpenLoad


def first_sends_s(slots: int, warmup_s: float, seed: int) -> list[float]:
    """One time a slot, spread over half of the warm-up: equal requests would otherwise run in waves, and a server whose
    speed depends on the requests in flight would see 1 to C of them instead of C."""
    random = Random(f"{seed} first sends")
    return [(slot + random.random() * (slot > 0)) / slots * warmup_s / 2 for slot in range(slots)]


def open_arrivals_s(
    load: OpenLoad, seed: int, part: int = 0, parts: int = 1, trace_s: Sequence[float] = ()
) -> Iterator[float]:
    """Endless, but for a trace, whose times are `trace_s`. Poisson parts add up to one Poisson stream; the others take
    turns.
    """
    if load.arrivals == "trace":
        yield from (at_s / load.speed for at_s in trace_s[part::parts])
        return
    assert load.rate_rps is not None
    if load.arrivals == "constant":
        number = part
        while True:
            yield number / load.rate_rps
            number += parts
    random = Random(f"{seed} arrivals {part}")
    due_s = 0.0
    while True:
        due_s += random.expovariate(load.rate_rps / parts)
        yield due_s
