"""What a mix means on average: tokens a request, a class and over all. Pure arithmetic over the classes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import NormalDist, fmean
from typing import Any

from campaigns.pages.forms.token_sizes import words_of

# Means of clipped distributions have no short formula: they are averaged over this many even steps of probability.
STEPS = 2000


@dataclass(frozen=True, slots=True)
class ClassPreview:
    """`share` is of all requests, 0 to 1. A mean is None where it cannot be told."""

    name: str
    weight: float
    share: float
    input_words: str
    output_words: str
    input_mean: float | None
    output_mean: float | None


@dataclass(frozen=True, slots=True)
class MixPreview:
    classes: tuple[ClassPreview, ...]
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
            input_words=words_of(one.get("input_tokens")),
            output_words=words_of(one.get("output_tokens")),
            input_mean=mean_of(one.get("input_tokens")),
            output_mean=mean_of(one.get("output_tokens")),
        )
        for one in classes
    )
    return MixPreview(
        classes=previews,
        input_mean=_weighted([(one.share, one.input_mean) for one in previews]),
        output_mean=_weighted([(one.share, one.output_mean) for one in previews]),
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


def _weighted(parts: Sequence[tuple[float, float | None]]) -> float | None:
    if any(value is None for _, value in parts):
        return None
    return sum(share * value for share, value in parts if value is not None)


def _weight(one: Mapping[str, Any]) -> float:
    weight = one.get("weight", 0)
    return float(weight) if isinstance(weight, int | float) and weight > 0 else 0.0
