"""What a mix leads one to expect of its requests: output lengths and the share of input found in a prefix cache."""

from __future__ import annotations

import statistics

from campaigns.models.plan import MixPlan
from workers.loadgen.lengths import Empirical, Length, Lognormal, mean
from workers.loadgen.plan import Mix, parse_mix


def median_output_tokens(mix: MixPlan) -> dict[str, float]:
    """{class name: tokens}, without classes whose prompts say nothing of it."""
    return {one.name: _median(one.output_tokens) for one in _parsed(mix).classes if one.output_tokens is not None}


def intended_cached_share(mix: MixPlan) -> float:
    """The part (0 to 1) of the input tokens that stands in the shared prefix."""
    parsed = _parsed(mix)
    weights = [(one.weight, mean(one.input_tokens)) for one in parsed.classes if one.input_tokens is not None]
    if not weights or not parsed.shared_prefix_tokens:
        return 0.0
    own = sum(weight * tokens for weight, tokens in weights) / sum(weight for weight, _ in weights)
    return parsed.shared_prefix_tokens / (parsed.shared_prefix_tokens + own)


def _parsed(mix: MixPlan) -> Mix:
    return parse_mix({"classes": mix.classes, "shared_prefix_tokens": mix.shared_prefix_tokens})


def _median(length: Length) -> float:
    match length:
        case Lognormal():
            return length.median
        case Empirical():
            return float(statistics.median(length.values))
        case _:
            return mean(length)
