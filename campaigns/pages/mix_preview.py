"""What a mix means on average: tokens a request, a class and over all. Pure arithmetic over the classes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import NormalDist, fmean
from typing import Any

from django.utils.translation import gettext as _

from campaigns.pages.forms.text_values import plain
from campaigns.pages.forms.token_sizes import words_of

# Means of clipped distributions have no short formula: they are averaged over this many even steps of probability.
STEPS = 2000


@dataclass(frozen=True, slots=True)
class ClassPreview:
    """`share` (0 to 1) is of all that is dealt. `turns_words`: what a conversation is like; empty for single requests.
    A mean is of one turn, without what was said before; None where it cannot be told."""

    name: str
    weight: float
    share: float
    turns_words: str
    input_words: str
    output_words: str
    turns_mean: float | None
    input_mean: float | None
    output_mean: float | None


@dataclass(frozen=True, slots=True)
class MixPreview:
    """Means a request; where there are `conversations`, of a turn's new text and of its answer."""

    classes: tuple[ClassPreview, ...]
    conversations: bool
    input_mean: float | None
    output_mean: float | None


def preview_of(classes: Sequence[Mapping[str, Any]]) -> MixPreview | None:
    """None when the classes carry no weight yet."""
    total = sum(_weight(one) for one in classes)
    if not total > 0:
        return None
    previews = tuple(
        ClassPreview(
            name=str(one.get("name", "")),
            weight=_weight(one),
            share=_weight(one) / total,
            turns_words=_turns_words(one),
            input_words=words_of(one.get("input_tokens")),
            output_words=words_of(one.get("output_tokens")),
            turns_mean=mean_of(one.get("turns") or 1),
            input_mean=mean_of(one.get("input_tokens")),
            output_mean=mean_of(one.get("output_tokens")),
        )
        for one in classes
    )
    return MixPreview(
        classes=previews,
        conversations=any(one.turns_words for one in previews),
        input_mean=_mean_a_turn([(one, one.input_mean) for one in previews]),
        output_mean=_mean_a_turn([(one, one.output_mean) for one in previews]),
    )


def mean_of(size: Any) -> float | None:
    """Mean tokens of a length as the load generator's plan writes it; None for one that is not complete."""
    if isinstance(size, int | float):
        return float(size) if math.isfinite(size) and size >= 0 else None
    if not isinstance(size, Mapping):
        return None
    try:
        return _mean_of_distribution(size)
    except (KeyError, TypeError, ValueError, OverflowError):
        return None


def _mean_of_distribution(size: Mapping[str, Any]) -> float | None:
    match size["dist"]:
        case "uniform":
            return (size["min"] + size["max"]) / 2
        case "empirical":
            return fmean(size["values"])
        case "normal":
            return _clipped_mean(size, lambda z: size["mean"] + size["sd"] * z)
        case "lognormal":
            return _clipped_mean(size, lambda z: size["median"] * math.exp(size["sigma"] * z))
    return None


def _clipped_mean(size: Mapping[str, Any], value: Callable[[float], float]) -> float:
    """Mean of `value` of a standard normal, clipped as the load generator clips it."""
    low, high = size.get("min", 1), size.get("max", math.inf)
    return fmean(min(max(value(z), low), high) for z in _standard_normal())


@cache
def _standard_normal() -> tuple[float, ...]:
    normal = NormalDist()
    return tuple(normal.inv_cdf((step + 0.5) / STEPS) for step in range(STEPS))


def _mean_a_turn(parts: Sequence[tuple[ClassPreview, float | None]]) -> float | None:
    total = turns = 0.0
    for one, value in parts:
        if value is None or one.turns_mean is None:
            return None
        turns += one.share * one.turns_mean
        total += one.share * one.turns_mean * value
    return total / turns


def _turns_words(one: Mapping[str, Any]) -> str:
    if one.get("turns") is None:
        return ""
    words = _("%(turns)s turns") % {"turns": words_of(one["turns"])}
    think_s = one.get("think_s") or 0
    return words + (_(", %(s)s s apart") % {"s": plain(think_s)} if think_s else "")


def _weight(one: Mapping[str, Any]) -> float:
    weight = one.get("weight", 0)
    return float(weight) if isinstance(weight, int | float) and weight > 0 else 0.0
