"""How throughput scales with concurrency: the Universal Scalability Law, a capped model, and which one the data show.

Knows levels and throughputs only. Formulas: N. Gunther's USL with three parameters, and the asymptotic bounds of a
closed queueing network.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from campaigns.analysis.criteria import Interval

MIN_LEVELS = 5


@dataclass(frozen=True, slots=True)
class Scaling:
    """X(N) = lambda N / (1 + sigma (N-1) + kappa N (N-1)), in the unit of the throughputs given. `peak` is N* in users
    and only there when the data support one; `ceiling` is the throughput that the better model cannot exceed; `knee` is
    where a capped curve meets its cap. `residuals` are (measured - fitted) / measured, a level each."""

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
        """Fitted throughput of the USL curve; None beyond twice the tested range, where it would be a guess."""
        raise NotImplementedError


def fit_scaling(concurrency: Sequence[float], throughput: Sequence[float]) -> Scaling | None:
    """Fit both models to one throughput a level (several of one level are averaged). None under `MIN_LEVELS` levels."""
    raise NotImplementedError
