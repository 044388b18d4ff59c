"""Means of lengths, against the load generator's own draws."""

from __future__ import annotations

from random import Random
from statistics import fmean

import pytest

from campaigns.pages.mix_preview import mean_of, preview_of
from workers.loadgen.plan import parse_mix


@pytest.mark.parametrize(
    "size",
    [
        500,
        {"dist": "uniform", "min": 100, "max": 900},
        {"dist": "normal", "mean": 300, "sd": 200, "min": 50, "max": 700},
        {"dist": "normal", "mean": 300, "sd": 0},
        {"dist": "lognormal", "median": 200, "sigma": 1.2, "max": 2000},
        {"dist": "empirical", "values": [1, 2, 30]},
    ],
)
def test_the_mean_is_that_of_what_is_sent(size):
    mix = parse_mix({"classes": [{"name": "a", "weight": 1, "input_tokens": size, "output_tokens": 10}]})
    length = mix.classes[0].input_tokens
    assert length is not None
    random = Random(1)
    drawn = [length if isinstance(length, int) else length.draw(random) for _ in range(20_000)]
    assert mean_of(size) == pytest.approx(fmean(drawn), rel=0.03)


@pytest.mark.parametrize(
    "size", [None, "x", {}, {"dist": "uniform"}, {"dist": "other"}, {"dist": "empirical", "values": []}]
)
def test_a_length_that_is_not_complete_has_no_mean(size):
    assert mean_of(size) is None


def test_a_conversation_is_told_by_its_turns_and_counts_as_many_times():
    talk = {"name": "talk", "weight": 1, "input_tokens": 40, "output_tokens": 100, "turns": 3, "think_s": 2.5}
    once = {"name": "once", "weight": 1, "input_tokens": 80, "output_tokens": 20}
    preview, plain = preview_of([talk, once]), preview_of([once])
    assert preview is not None and plain is not None
    assert [one.turns_words for one in preview.classes] == ["3 turns, 2.5 s apart", ""]
    assert (preview.conversations, preview.input_mean, preview.output_mean) == (True, 50, 80)
    assert not plain.conversations


def test_without_weights_there_is_nothing_to_preview():
    assert preview_of([]) is None
    assert preview_of([{"name": "a", "weight": 0}]) is None
