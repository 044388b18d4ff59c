"""From judged levels to one number: the highest concurrency that passes, its interval, and the words for it.

Knows levels and their assessments; knows neither requests nor whether the run drifted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from campaigns.analysis.assessment import Assessment, Within, joint
from campaigns.analysis.criteria import Criterion

Floats = NDArray[np.float64]

# An unsure level is measured again (see refine); after this many measurements its estimate decides.
MEASUREMENTS_TO_DECIDE = 3
# exp(10) is 22 000 times the limit: far enough from it to count as infinite, near enough to average.
_EXCESS_MAX = 10.0
_SD_FLOOR = 0.01


@dataclass(frozen=True, slots=True)
class Level:
    """One concurrency with all its valid measurements pooled. `valid` is False for one that takes part only as evidence
    of "beyond" (see `Check.understates`) or not at all (`within` is None). `answered` counts the requests that were
    answered. `is_rung` is False for a baseline that is no part of the ladder."""

    concurrency: int
    valid: bool
    within: Within | None
    measurements: int
    assessments: tuple[Assessment, ...]
    answered: int
    is_rung: bool = True

    @property
    def passes(self) -> bool | None:
        """What the load line makes of it: an unsure level that was measured often enough is decided by its estimate."""
        return _passes(self, self.assessments)

    def of(self, criterion: Criterion) -> Assessment | None:
        return next((one for one in self.assessments if one.criterion == criterion), None)


@dataclass(frozen=True, slots=True)
class LimitedBy:
    """The binding criterion; `class_name` when one class breaks the limit while another keeps it."""

    metric: str
    stat: str
    class_name: str | None = None


@dataclass(frozen=True, slots=True)
class MaxConcurrency:
    """`value` users, between `low` and `high` (95%; `high` is None when nothing failed). `relation` "=": passed and
    failed are known; ">=": nothing tested failed; "<": the first stage fails; None: no answer. `unsure` are the levels
    that could not be decided. `estimate` is where the monotone curve crosses the limit, for drawing. `text` says it all
    in one line."""

    value: int | None
    low: int | None
    high: int | None
    relation: Literal["=", ">=", "<"] | None
    passed: int | None
    failed: int | None
    limited_by: LimitedBy | None
    text: str
    estimate: float | None = None
    unsure: tuple[int, ...] = ()


def no_answer(text: str) -> MaxConcurrency:
    return MaxConcurrency(None, None, None, None, None, None, None, text)


def max_concurrency(levels: Sequence[Level], criteria: Sequence[Criterion]) -> MaxConcurrency:
    """The answer for `criteria` together. `levels` ascend in concurrency and hold the baseline.

    Between two tested levels only monotony is assumed: with 20 passed and 30 failed the truth is anywhere from 20 to
    29. Noise widens that: in each bootstrap resample the curves are made monotone, and the interval spans the central
    95% of where they pass and fail.
    """
    walk = _Walk.along(levels, criteria)
    if walk.failed is None and walk.passed is None:
        names = ", ".join(str(level.concurrency) for level in walk.unsure)
        return no_answer(f"none: {names} unsure" if names else "none: no valid stage")
    unsure = tuple(level.concurrency for level in walk.unsure)
    if walk.failed is None:
        assert walk.passed is not None
        passed = walk.passed.concurrency
        low, _ = _noise_interval(levels, criteria)
        text = _text_at_least(passed, walk.unsure, levels, criteria)
        return MaxConcurrency(passed, min(passed, low or passed), None, ">=", passed, None, None, text, None, unsure)
    failed = walk.failed.concurrency
    binding = _binding(walk.failed, criteria)
    limited_by = _limited_by(binding)
    cause = f"all requests failed at {failed}" if walk.failed.answered == 0 else f"failed {failed}{_on(binding)}"
    if walk.passed is None:
        if walk.unsure:
            lowest = unsure[0]
            text = f"none: {lowest} is unsure, {cause}"
            return MaxConcurrency(None, None, failed - 1, None, None, failed, limited_by, text, None, unsure)
        text = f"< {failed} (first stage fails): {cause}"
        return MaxConcurrency(failed, None, None, "<", None, failed, limited_by, text)
    passed = walk.passed.concurrency
    low, high = _noise_interval(levels, criteria)
    low = min(passed, low or passed)
    # Failures decide by their share, which the latencies' noise does not move.
    by_failures = any(one.excess is None and one.within == "beyond" for one in _chosen(walk.failed, criteria))
    high = failed - 1 if by_failures or high is None else max(failed - 1, high)
    span = f" ({low}–{high})" if low < high else ""
    doubt = f", {', '.join(map(str, unsure))} unsure" if unsure else ""
    text = f"{passed}{span}: passed {passed}{doubt}, {cause}"
    estimate = _estimate(levels, criteria, passed, failed)
    return MaxConcurrency(passed, low, high, "=", passed, failed, limited_by, text, estimate, unsure)


@dataclass(frozen=True, slots=True)
class _Walk:
    """Up the ladder: the last level of an unbroken row of passes, the first failure, and what is undecided between."""

    passed: Level | None
    failed: Level | None
    unsure: tuple[Level, ...]

    @classmethod
    def along(cls, levels: Sequence[Level], criteria: Sequence[Criterion]) -> _Walk:
        passed: Level | None = None
        unsure: list[Level] = []
        for level in levels:
            chosen = _chosen(level, criteria)
            if not level.is_rung or joint(chosen) is None or (not level.valid and joint(chosen) != "beyond"):
                continue
            passes = _passes(level, chosen)
            if passes is False:
                return cls(passed, level, tuple(unsure))
            if passes is None:
                unsure.append(level)
            elif not unsure:
                passed = level
        return cls(passed, None, tuple(unsure))


def _chosen(level: Level, criteria: Sequence[Criterion]) -> tuple[Assessment, ...]:
    return tuple(one for one in level.assessments if one.criterion in criteria)


def _passes(level: Level, assessments: Sequence[Assessment]) -> bool | None:
    verdict = joint(assessments)
    if verdict == "unsure" and level.measurements >= MEASUREMENTS_TO_DECIDE:
        return all(one.excess is None or one.excess <= 0 for one in assessments)
    return {"within": True, "beyond": False}.get(verdict or "")


def _binding(failed: Level, criteria: Sequence[Criterion]) -> Assessment | None:
    """The criterion that the failed level breaks most; failures come first, for they make the latencies of the rest
    look better."""
    chosen = _chosen(failed, criteria)
    broken = [one for one in chosen if one.within == "beyond"] or [
        one for one in chosen if one.excess is not None and one.excess > 0
    ]
    return max(broken, key=lambda one: np.inf if one.excess is None else one.excess, default=None)


def _limited_by(binding: Assessment | None) -> LimitedBy | None:
    if binding is None:
        return None
    return LimitedBy(binding.criterion.metric, binding.criterion.stat, binding.worst_class)


def _on(binding: Assessment | None) -> str:
    if binding is None:
        return ""
    return f" on {binding.criterion.label}" + (f" of class {binding.worst_class}" if binding.worst_class else "")


def _text_at_least(passed: int, unsure: Sequence[Level], levels: Sequence[Level], criteria: Sequence[Criterion]) -> str:
    if unsure:
        return f"≥ {passed}: {', '.join(str(level.concurrency) for level in unsure)} unsure"
    skipped = [level.concurrency for level in levels if level.concurrency > passed and not level.valid]
    if skipped:
        return f"≥ {passed} (highest valid stage; {', '.join(map(str, skipped))} took no part)"
    return f"≥ {passed} (highest tested)"


def _curves(levels: Sequence[Level], criterion: Criterion) -> tuple[Floats, Floats, Floats] | None:
    """Concurrencies (n), excess (n) and its resamples (resamples, n) of the levels that have them; None under two."""
    concurrency: list[float] = []
    excess: list[float] = []
    excesses: list[Floats] = []
    for level in levels:
        one = level.of(criterion)
        if one is None or one.excess is None or one.excesses is None:
            continue
        # An invalid level is evidence of "beyond" only.
        if level.within is not None and (level.valid or one.within == "beyond"):
            concurrency.append(level.concurrency)
            excess.append(one.excess)
            excesses.append(one.excesses)
    if len(concurrency) < 2:
        return None
    return (
        np.array(concurrency),
        np.clip(np.array(excess), -_EXCESS_MAX, _EXCESS_MAX),
        np.clip(np.stack(excesses, axis=1), -_EXCESS_MAX, _EXCESS_MAX),
    )


def _noise_interval(levels: Sequence[Level], criteria: Sequence[Criterion]) -> tuple[int | None, int | None]:
    """Central 95% over the resamples: from the last level that passes to just below the first that fails, where every
    criterion's curve was made monotone. (None, None) without curves."""
    lowest: Floats | None = None
    highest: Floats | None = None
    for criterion in criteria:
        curves = _curves(levels, criterion)
        if curves is None:
            continue
        n, _, excesses = curves
        failing = monotone(excesses, _weights(excesses)) > 0
        count = np.where(failing.any(axis=1), failing.argmax(axis=1), n.size)
        passed = np.where(count > 0, n[np.maximum(count - 1, 0)], 0)
        below_failed = np.where(count < n.size, n[np.minimum(count, n.size - 1)] - 1, n[-1])
        lowest = passed if lowest is None else np.minimum(lowest, passed)
        highest = below_failed if highest is None else np.minimum(highest, below_failed)
    if lowest is None or highest is None:
        return None, None
    low = int(np.quantile(lowest, 0.025, method="lower"))
    return low or None, int(np.quantile(highest, 0.975, method="higher"))


def _estimate(levels: Sequence[Level], criteria: Sequence[Criterion], passed: int, failed: int) -> float | None:
    """Where the first monotone curve crosses its limit, linear in the log of the degradation over that of the
    concurrency, held between the levels that decided. None when only failures decided: they have no curve."""
    crossings = []
    for criterion in criteria:
        curves = _curves(levels, criterion)
        if curves is None:
            continue
        n, excess, excesses = curves
        fit = monotone(excess[np.newaxis, :], _weights(excesses))[0]
        above = np.flatnonzero(fit > 0)
        if above.size and above[0] > 0:
            place = int(above[0])
            share = -fit[place - 1] / (fit[place] - fit[place - 1])
            crossings.append(float(np.exp(np.log(n[place - 1]) + share * np.log(n[place] / n[place - 1]))))
    return min(max(min(crossings), passed), failed) if crossings else None


def _weights(excesses: Floats) -> Floats:
    variances: Floats = excesses.var(axis=0)
    return 1.0 / (variances + _SD_FLOOR**2)


def monotone(curves: Floats, weights: Floats) -> Floats:
    """Isotonic (never falling) least-squares fit of each row of `curves` (rows, n) with `weights` (n).

    By the max-min formula of isotonic regression: fit[i] = max over a <= i of min over b >= i of mean(a..b).
    """
    n = curves.shape[1]
    weight_sums = np.concatenate([[0.0], np.cumsum(weights)])
    sums = np.concatenate([np.zeros((curves.shape[0], 1)), np.cumsum(curves * weights, axis=1)], axis=1)
    start, stop = np.arange(n)[:, np.newaxis], np.arange(1, n + 1)[np.newaxis, :]
    spans = np.where(stop > start, weight_sums[stop] - weight_sums[start], 1.0)
    means = np.where(stop > start, (sums[:, stop] - sums[:, start]) / spans, np.inf)
    smallest: Floats = np.minimum.accumulate(means[:, :, ::-1], axis=2)[:, :, ::-1]
    fit: Floats = np.max(np.where(stop > start, smallest, -np.inf), axis=1)
    return fit
