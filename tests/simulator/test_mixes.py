from __future__ import annotations

from collections import Counter
from itertools import islice

import pytest

from workers.simulator.mixes import MIXES, MixError, deal, read_mix


def test_every_block_holds_the_exact_ratio() -> None:
    dealt = [one.name for one in islice(deal(MIXES["default"], 3), 50)]
    for start in range(0, 50, 10):
        assert Counter(dealt[start : start + 10]) == {"short": 3, "medium": 4, "long": 3}


def test_the_order_follows_the_seed() -> None:
    first, again, other = (list(islice(deal(MIXES["default"], seed), 40)) for seed in (1, 1, 2))
    assert first == again != other


def test_a_mix_may_be_given_as_json() -> None:
    mix = read_mix('{"classes": [{"name": "a", "weight": 2, "input_tokens": 5, "output_tokens": 6}]}')
    assert [(one.name, one.weight, one.input_tokens, one.output_tokens) for one in mix.classes] == [("a", 2, 5, 6)]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("medium", "default, small"),
        ('{"classes": []}', "length"),
        ('{"classes": [{"name": "a", "weight": 1, "input_tokens": {"dist": "uniform"}, "output_tokens": 6}]}', "fixed"),
        (
            '{"classes": [{"name": "a", "weight": 1, "input_tokens": 1, "output_tokens": 6},'
            ' {"name": "a", "weight": 1, "input_tokens": 1, "output_tokens": 6}]}',
            "different names",
        ),
    ],
)
def test_what_is_wrong_with_a_mix_is_said(text: str, words: str) -> None:
    with pytest.raises(MixError, match=words):
        read_mix(text)
