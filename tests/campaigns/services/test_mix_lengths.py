"""What a mix leads one to expect, against conversations that are dealt out one by one."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from campaigns.models.plan import MixPlan
from campaigns.services.mix_lengths import intended_cached_share
from workers.loadgen.lengths import draw
from workers.loadgen.plan import parse_mix

ONCE = {"name": "once", "weight": 3, "input_tokens": {"dist": "uniform", "min": 10, "max": 90}, "output_tokens": 20}
TALK = {
    "name": "talk",
    "weight": 2,
    "input_tokens": 40,
    "output_tokens": {"dist": "uniform", "min": 50, "max": 150},
    "turns": {"dist": "uniform", "min": 1, "max": 9},
}


def dealt(classes: list[dict[str, Any]], prefix: int) -> float:
    """The share of input that was sent before, in many requests."""
    mix = parse_mix({"classes": classes, "shared_prefix_tokens": prefix})
    random, sent, again = Random(5), 0, 0
    for _ in range(4000):
        (one,) = random.choices(mix.classes, [one.weight for one in mix.classes])
        assert one.input_tokens is not None and one.output_tokens is not None
        said = prefix
        for _ in range(draw(one.turns or 1, random)):
            new = draw(one.input_tokens, random)
            sent, again = sent + said + new, again + said
            said += new + draw(one.output_tokens, random)
    return again / sent


@pytest.mark.parametrize("prefix", [0, 500])
@pytest.mark.parametrize("classes", [[ONCE], [TALK], [ONCE, TALK], [{**TALK, "turns": 3}]])
def test_the_intended_cached_share_is_what_is_sent_again(classes: list[dict[str, Any]], prefix: int) -> None:
    mix = MixPlan(id=1, name="m", classes=classes, shared_prefix_tokens=prefix)
    assert intended_cached_share(mix) == pytest.approx(dealt(classes, prefix), abs=0.02)
