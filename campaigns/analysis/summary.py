"""One call that turns the stages of a run into everything the results page states. Only joins the other modules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from campaigns.analysis.criteria import Criterion
from campaigns.analysis.degradation import Degradation
from campaigns.analysis.latency import Percentiles
from campaigns.analysis.load_line import LoadLine, Within
from campaigns.analysis.scaling import Scaling
from campaigns.analysis.validity import Check, StageInput


@dataclass(frozen=True)
class RunInput:
    """The whole stages of a run in the order they ran. See `find_load_line` for `baseline_is_rung`."""

    stages: tuple[StageInput, ...]
    criteria: tuple[Criterion, ...]
    weights: Mapping[str, float]
    seed: int
    baseline_is_rung: bool = True


@dataclass(frozen=True)
class StageAnalysis:
    """One stage's result. `within` and `degradations` ({metric: {stat: …}}) are those of its whole level: measurements
    of one concurrency are pooled. Throughputs count what ended or arrived inside the window."""

    stage: StageInput
    checks: tuple[Check, ...]
    valid: bool
    within: Within | None
    degradations: Mapping[str, Mapping[str, Degradation]]
    percentiles: Mapping[str, Percentiles | None]
    requests_per_s: float | None


@dataclass(frozen=True)
class RunAnalysis:
    """`stages` in the order given."""

    stages: tuple[StageAnalysis, ...]
    line: LoadLine
    scaling: Scaling | None


def analyse_run(run: RunInput) -> RunAnalysis:
    """Check, judge and fit; the same input gives the same answer."""
    raise NotImplementedError
