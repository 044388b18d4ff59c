"""Length distributions of prompts and outputs, in tokens. Every length drawn is a whole number of at least 1."""

from __future__ import annotations

import math
from random import Random
from typing import Annotated, TypeAlias

import msgspec

from workers.loadgen.checking import Problems, join

TOKENS_MAX = 2_000_000

Tokens = Annotated[int, msgspec.Meta(ge=1, le=TOKENS_MAX, description=f"a whole number of tokens, 1 to {TOKENS_MAX}")]
_Positive = Annotated[float, msgspec.Meta(gt=0, le=TOKENS_MAX, description="a number above 0")]
_Spread = Annotated[float, msgspec.Meta(ge=0, le=TOKENS_MAX, description="a number, 0 or more")]
_Values = Annotated[
    list[Tokens], msgspec.Meta(min_length=1, description=f"a list of whole numbers of tokens, each 1 to {TOKENS_MAX}")
]


class Distribution(msgspec.Struct, frozen=True, kw_only=True, tag_field="dist"):
    pass


class Uniform(Distribution, frozen=True, kw_only=True, tag="uniform"):
    """Whole numbers from `min` to `max`, both included."""

    min: Tokens
    max: Tokens

    def draw(self, random: Random) -> int:
        return random.randint(self.min, self.max)

    @property
    def mean(self) -> float:
        return (self.min + self.max) / 2


class Normal(Distribution, frozen=True, kw_only=True, tag="normal"):
    """Clipped to `min` and `max`."""

    mean: _Positive
    sd: _Spread
    min: Tokens = 1
    max: Tokens = TOKENS_MAX

    def draw(self, random: Random) -> int:
        return _clip(random.gauss(self.mean, self.sd), self.min, self.max)


class Lognormal(Distribution, frozen=True, kw_only=True, tag="lognormal"):
    """exp of a normal with mean ln(median) and standard deviation `sigma`, clipped to `min` and `max`."""

    median: _Positive
    sigma: Annotated[float, msgspec.Meta(ge=0, le=10, description="a number from 0 to 10")]
    min: Tokens = 1
    max: Tokens = TOKENS_MAX

    def draw(self, random: Random) -> int:
        return _clip(random.lognormvariate(math.log(self.median), self.sigma), self.min, self.max)

    @property
    def mean(self) -> float:
        return min(self.median * math.exp(self.sigma**2 / 2), self.max)


class Empirical(Distribution, frozen=True, kw_only=True, tag="empirical"):
    """Each value equally likely."""

    values: _Values

    def draw(self, random: Random) -> int:
        return random.choice(self.values)

    @property
    def mean(self) -> float:
        return sum(self.values) / len(self.values)


Length: TypeAlias = Tokens | Uniform | Normal | Lognormal | Empirical


def draw(length: Length, random: Random) -> int:
    return length if isinstance(length, int) else length.draw(random)


def mean(length: Length) -> float:
    """Expected tokens (clipping of normal and lognormal aside)."""
    return float(length) if isinstance(length, int) else length.mean


def check_bounds(length: object, path: str, problems: Problems) -> None:
    if isinstance(length, (Uniform, Normal, Lognormal)) and length.min > length.max:
        problems.add(join(path, "min"), f"must not be above max ({length.max}), not {length.min}")


def _clip(value: float, low: int, high: int) -> int:
    return max(low, min(high, round(value)))
