"""What a mix leads one to expect of its requests: output lengths and the share of input found in a prefix cache."""

from __future__ import annotations

import statistics
from random import Random

from campaigns.models.plan import MixPlan
from workers.loadgen.lengths import Empirical, Length, Lognormal, draw, mean
from workers.loadgen.plan import Mix, TrafficClass, parse_mix

# The square of a number of turns counts, of which not every distribution has a short formula.
TURNS_DRAWN = 2000


def median_output_tokens(mix: MixPlan) -> dict[str, float]:
    """{class name: tokens}, without classes whose prompts say nothing of it."""
    return {one.name: _median(one.output_tokens) for one in _parsed(mix).classes if one.output_tokens is not None}


def intended_cached_share(mix: MixPlan) -> float:
    """The part (0 to 1) of the input tokens that was sent before on purpose: in the shared prefix, or in the earlier
    turns of a conversation."""
    parsed = _parsed(mix)
    dealt = [(one.weight, *_input_tokens(one, parsed.shared_prefix_tokens)) for one in parsed.classes]
    sent = sum(weight * tokens for weight, tokens, _ in dealt)
    return sum(weight * again for weight, _, again in dealt) / sent if sent else 0.0


def _input_tokens(one: TrafficClass, prefix: int) -> tuple[float, float]:
    """Expected input tokens of all turns of what is dealt, and those of them that were sent before. Turn k has the
    prefix, k new texts and k - 1 answers; all but its own new text was there already."""
    if one.input_tokens is None or one.output_tokens is None:
        return 0.0, 0.0
    new, answer = mean(one.input_tokens), mean(one.output_tokens)
    random = Random("turns")
    turns = [draw(one.turns or 1, random) for _ in range(TURNS_DRAWN)]
    again = statistics.fmean(prefix * count + (new + answer) * count * (count - 1) / 2 for count in turns)
    return again + new * statistics.fmean(turns), again


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
