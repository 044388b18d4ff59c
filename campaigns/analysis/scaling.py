"""How throughput scales with concurrency: the Universal Scalability Law, a capped model, and which one the data show.

Knows levels and throughputs only. Formulas: N. Gunther's USL with three parameters, and the asymptotic bounds of a
closed queueing network.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, stats

from campaigns.analysis.criteria import Interval

Floats = NDArray[np.float64]

MIN_LEVELS = 5
EXTRAPOLATE_MAX = 2.0
# What the law's denominator must gain by the highest level before a curve counts as bent, and kappa as there at all.
_LINEAR_MAX_BEND = 0.05
_KAPPA_MIN_BEND = 1e-3
# Both models have three parameters and the USL comes first: the capped one must leave at most half its squared error,
# and an error below this share of the total is rounding.
_CAPPED_MAX_ERROR_SHARE = 0.5
_ROUNDING = 1e-10
# A measured fall of throughput below this is noise.
_FALL_MIN = 0.02


@dataclass(frozen=True, slots=True)
class Scaling:
    """Throughput of N users, in the unit of the throughputs given, by the better of two models:

    - "usl": X(N) = lambda N / (1 + sigma (N-1) + kappa N (N-1)); "linear" is the same while it has not bent;
    - "capped": X(N) = min(lambda N / (1 + sigma (N-1)), ceiling), kappa 0, with its `knee` where the cap begins.

    `peak` is N* in users and `peak_throughput` X(N*), None when the data support no maximum; `ceiling` is what
    throughput cannot exceed, where known. `intervals` (95%, of "lambda", "sigma", "kappa") are empty for a capped
    curve. `residuals` are (measured - fitted) / measured, a level each.
    """

    lambda_: float
    sigma: float
    kappa: float
    peak: float | None
    peak_throughput: float | None
    r2: float
    model: Literal["usl", "capped", "linear"]
    ceiling: float | None
    knee: float | None
    intervals: Mapping[str, Interval]
    residuals: tuple[float, ...]
    tested_max: float
    words: str

    def throughput(self, concurrency: float) -> float | None:
        """The fitted curve; None beyond twice the tested range, where it would be a guess."""
        if not 0 < concurrency <= EXTRAPOLATE_MAX * self.tested_max:
            return None
        curve = float(usl(np.array([concurrency]), self.lambda_, self.sigma, self.kappa)[0])
        return min(curve, self.ceiling) if self.model == "capped" and self.ceiling is not None else curve


def usl(n: Floats, lambda_: float, sigma: float, kappa: float) -> Floats:
    """Throughput of `n` users by the Universal Scalability Law; with kappa 0 it is Amdahl's law."""
    return lambda_ * n / (1 + sigma * (n - 1) + kappa * n * (n - 1))


def fit_scaling(concurrency: Sequence[float], throughput: Sequence[float]) -> Scaling | None:
    """Fit both models to one throughput a level (several of one level are averaged, levels without throughput left
    out). None under `MIN_LEVELS` levels: three unknowns would fit anything."""
    n, x = _levels(concurrency, throughput)
    if n.size < MIN_LEVELS:
        return None
    fit = _fit_usl(n, x)
    capped = _fit_capped(n, x)
    total = float(((x - x.mean()) ** 2).sum())
    misfit = fit.error(n, x)
    if capped and misfit > _ROUNDING * total and capped.error(n, x) < _CAPPED_MAX_ERROR_SHARE * misfit:
        return _capped_scaling(capped, n, x)
    return _usl_scaling(fit, n, x)


@dataclass(frozen=True, slots=True)
class _Fit:
    lambda_: float
    sigma: float
    kappa: float
    ceiling: float = np.inf
    intervals: Mapping[str, Interval] = field(default_factory=dict)

    def at(self, n: Floats) -> Floats:
        return np.minimum(usl(n, self.lambda_, self.sigma, self.kappa), self.ceiling)

    def error(self, n: Floats, x: Floats) -> float:
        return float(((self.at(n) - x) ** 2).sum())

    def r2(self, n: Floats, x: Floats) -> float:
        total = float(((x - x.mean()) ** 2).sum())
        return 1 - self.error(n, x) / total if total > 0 else 1.0

    def residuals(self, n: Floats, x: Floats) -> tuple[float, ...]:
        return tuple(float(one) for one in (x - self.at(n)) / x)


def _usl_scaling(fit: _Fit, n: Floats, x: Floats) -> Scaling:
    top = float(n.max())
    contention, coherency = fit.sigma * (top - 1), fit.kappa * top * (top - 1)
    peak = peak_throughput = ceiling = None
    model: Literal["usl", "linear"] = "usl"
    if contention + coherency < _LINEAR_MAX_BEND:
        model = "linear"
        words = f"throughput grows in step with users up to {top:g}: no limit in the tested range"
    elif coherency < _KAPPA_MIN_BEND or fit.sigma >= 1 or fit.intervals["kappa"].low <= 0:
        ceiling = fit.lambda_ / fit.sigma if fit.sigma > 0 else None
        words = "no maximum: throughput levels off by contention, a share of the work that waits for one shared thing"
    else:
        peak = float(np.sqrt((1 - fit.sigma) / fit.kappa))
        if peak > EXTRAPOLATE_MAX * top:
            peak = None
            words = "throughput bends; a maximum, if there is one, lies beyond twice the tested range"
        else:
            peak_throughput = ceiling = float(fit.at(np.array([peak]))[0])
            words = _peak_words(n, x, peak, contention, coherency)
    return Scaling(
        lambda_=fit.lambda_,
        sigma=fit.sigma,
        kappa=fit.kappa,
        peak=peak,
        peak_throughput=peak_throughput,
        r2=fit.r2(n, x),
        model=model,
        ceiling=ceiling,
        knee=None,
        intervals=fit.intervals,
        residuals=fit.residuals(n, x),
        tested_max=top,
        words=words,
    )


def _peak_words(n: Floats, x: Floats, peak: float, contention: float, coherency: float) -> str:
    """Names a cost between pairs of users only where throughput was seen to fall: kappa alone does not show it."""
    best = int(x.argmax())
    fall = 1 - float(x[-1] / x[best])
    if best < n.size - 1 and fall >= _FALL_MIN:
        larger = "coherency" if coherency > contention else "contention"
        return (
            f"throughput peaks near {int(peak)} users and falls by {fall:.0%} from {n[best]:g} to {n[-1]:g}; "
            f"the larger cost at {n[-1]:g} is {larger}"
        )
    return f"throughput flattens; the curve has its maximum near {int(peak)} users, but no fall was measured"


def _capped_scaling(fit: _Fit, n: Floats, x: Floats) -> Scaling:
    # lambda N / (1 + sigma (N - 1)) = ceiling, solved for N; without contention it is ceiling / lambda.
    knee = fit.ceiling * (1 - fit.sigma) / (fit.lambda_ - fit.sigma * fit.ceiling)
    words = (
        f"throughput stops at a cap from about {knee:.0f} users: a limit on batch, connections or rate, or a full "
        f"resource, not a cost that grows with users"
    )
    return Scaling(
        lambda_=fit.lambda_,
        sigma=fit.sigma,
        kappa=0.0,
        peak=None,
        peak_throughput=None,
        r2=fit.r2(n, x),
        model="capped",
        ceiling=fit.ceiling,
        knee=knee,
        intervals={},
        residuals=fit.residuals(n, x),
        tested_max=float(n.max()),
        words=words,
    )


def _levels(concurrency: Sequence[float], throughput: Sequence[float]) -> tuple[Floats, Floats]:
    """One mean throughput a level, ascending."""
    n, x = np.asarray(concurrency, dtype=np.float64), np.asarray(throughput, dtype=np.float64)
    known = np.isfinite(n) & np.isfinite(x) & (n > 0) & (x > 0)
    levels = np.unique(n[known])
    return levels, np.array([x[known & (n == level)].mean() for level in levels])


def _fit_usl(n: Floats, x: Floats) -> _Fit:
    """Non-linear least squares from sigma 0.1, kappa 0.01, lambda max(X/N), none of them below 0; throughput is scaled
    to X/N = 1 so that the three parameters are of like size."""
    scale = float((x / n).max())
    found = optimize.least_squares(
        lambda p: usl(n, *p) - x / scale,
        np.array([1.0, 0.1, 0.01]),
        bounds=(0, np.inf),
        x_scale="jac",
        xtol=1e-14,
        ftol=1e-14,
        gtol=1e-14,
        max_nfev=2000,
    )
    lambda_, sigma, kappa = (float(one) for one in found.x)
    spread = _spread(found.jac, found.fun).tolist()
    intervals = {
        "lambda": Interval(scale * max(0.0, lambda_ - spread[0]), scale * (lambda_ + spread[0])),
        "sigma": Interval(max(0.0, sigma - spread[1]), sigma + spread[1]),
        "kappa": Interval(max(0.0, kappa - spread[2]), kappa + spread[2]),
    }
    return _Fit(scale * lambda_, sigma, kappa, intervals=intervals)


def _spread(jacobian: Floats, residuals: Floats) -> Floats:
    """Half widths of the parameters' 95% intervals: t times the standard errors of a linearised least-squares fit."""
    free = jacobian.shape[0] - jacobian.shape[1]
    covariance = np.linalg.pinv(jacobian.T @ jacobian) * float((residuals**2).sum()) / free
    half: Floats = stats.t.ppf(0.975, free) * np.sqrt(np.diag(covariance))
    return half


def _fit_capped(n: Floats, x: Floats) -> _Fit | None:
    """The best min(lambda N / (1 + sigma (N-1)), ceiling): for each number of levels on the cap, at least two, the
    ceiling is their mean and Amdahl's law is fitted to the rest, at least two. None when no split meets its cap."""
    best: _Fit | None = None
    for rising in range(2, n.size - 1):
        lambda_, sigma = _fit_amdahl(n[:rising], x[:rising])
        fit = _Fit(lambda_, sigma, 0.0, float(x[rising:].mean()))
        meets_cap = usl(n[rising:], lambda_, sigma, 0.0).min() >= fit.ceiling
        if meets_cap and (best is None or fit.error(n, x) < best.error(n, x)):
            best = fit
    return best


def _fit_amdahl(n: Floats, x: Floats) -> tuple[float, float]:
    """lambda and sigma, none below 0. N/X is linear in N - 1; weighting by X squared makes its error that of X."""
    slowdown, weight = n / x, x**2 / n
    columns = np.stack([weight, weight * (n - 1)], axis=1)
    (base, slope), _ = optimize.nnls(columns, weight * slowdown)
    return (1 / float(base), float(slope) / float(base)) if base > 0 else (float((x / n).max()), 0.0)
