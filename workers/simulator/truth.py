"""What a campaign on a scenario must find: the model run free of sockets and clocks, with closed-loop clients.

Medians a class, degradation against one client as the mix-weighted geometric mean over classes, and the highest
concurrency within the limit. The same scheduler and cost model serve the HTTP port, so the two must agree.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any, Literal, get_args

from workers.simulator.mixes import Mix, TrafficClass, deal
from workers.simulator.replica import Replica
from workers.simulator.scenarios import Scenario
from workers.simulator.scheduler import Sequence

Metric = Literal["ttft_ms", "tpot_ms"]
METRICS: tuple[Metric, ...] = get_args(Metric)
DEGRADATION_LIMIT = 0.5
_MEASURED_MIN = 400
_WARMUP_ROUNDS = 2


@dataclass(frozen=True, slots=True)
class StageTruth:
    """Medians by class; a class without a value (TPOT of one token) is left out. `degradation`: 0.5 is 50% slower."""

    concurrency: int
    p50: dict[Metric, dict[str, float]]
    degradation: dict[Metric, float]
    requests_per_s: float
    output_tokens_per_s: float


@dataclass(frozen=True, slots=True)
class Truth:
    """`limits`: the highest concurrency within 50%, a metric; `limit` is the lowest of them, set by `limited_by`. They
    are exact to one client where something failed; where nothing did, they are the highest tested and `limited_by` is
    None."""

    limit: int
    limits: dict[Metric, int]
    limited_by: Metric | None
    stages: list[StageTruth]


def find_truth(scenario: Scenario, mix: Mix, ladder: list[int], noise: float, seed: int) -> Truth:
    """`ladder`: concurrencies to test beside 1. Where a metric fails, the gap below is bisected."""
    stages: dict[int, StageTruth] = {}
    baseline = _p50(mix, _run(scenario, mix, 1, noise, seed).measured)

    def stage(concurrency: int) -> StageTruth:
        if concurrency not in stages:
            stages[concurrency] = _stage(scenario, mix, concurrency, noise, seed, baseline)
        return stages[concurrency]

    rungs = sorted({1, *ladder})
    for rung in rungs:
        stage(rung)
    limits: dict[Metric, int] = {}
    for metric in METRICS:
        failed = next((rung for rung in rungs if stage(rung).degradation.get(metric, 0.0) > DEGRADATION_LIMIT), None)
        limits[metric] = rungs[-1] if failed is None else _bisect(stage, metric, rungs[rungs.index(failed) - 1], failed)
    limited_by = min(METRICS, key=lambda metric: limits[metric])
    limit = limits[limited_by]
    return Truth(limit, limits, limited_by if limit < rungs[-1] else None, [stages[one] for one in sorted(stages)])


def _bisect(stage: Callable[[int], StageTruth], metric: Metric, passed: int, failed: int) -> int:
    while failed - passed > 1:
        middle = (passed + failed) // 2
        if stage(middle).degradation[metric] > DEGRADATION_LIMIT:
            failed = middle
        else:
            passed = middle
    return passed


@dataclass(slots=True)
class _Stage:
    """`measured`: the cohort by class; `span_s`: from its first request sent to its last one ended."""

    measured: dict[TrafficClass, list[Sequence]]
    span_s: float
    ended: int
    tokens: int


def _stage(
    scenario: Scenario, mix: Mix, concurrency: int, noise: float, seed: int, baseline: dict[Metric, dict[str, float]]
) -> StageTruth:
    run = _run(scenario, mix, concurrency, noise, seed)
    p50 = _p50(mix, run.measured)
    return StageTruth(
        concurrency,
        p50,
        {metric: _degradation(mix, p50[metric], baseline[metric]) for metric in METRICS if p50[metric]},
        run.ended / run.span_s,
        run.tokens / run.span_s,
    )


def _run(scenario: Scenario, mix: Mix, concurrency: int, noise: float, seed: int) -> _Stage:
    """Closed loop without think time. The cohort is whole blocks of the mix sent after a warm-up; load is kept up until
    its last request has ended."""
    replica = Replica(scenario, noise, seed)
    dealt = deal(mix, seed)
    block = sum(one.weight for one in mix.classes)
    first = math.ceil(_WARMUP_ROUNDS * concurrency / block) * block
    behind = first + math.ceil(_MEASURED_MIN / block) * block
    sent: dict[Sequence, tuple[int, TrafficClass]] = {}
    measured: dict[TrafficClass, list[Sequence]] = defaultdict(list)
    number = 0
    start_s = now_s = 0.0
    ended = tokens = 0
    left = behind - first

    def send() -> None:
        nonlocal number, start_s
        one = next(dealt)
        sequence = Sequence(one.input_tokens, one.output_tokens)
        if number == first:
            start_s = now_s
        sent[sequence] = (number, one)
        number += 1
        replica.submit(sequence, now_s)

    for _ in range(concurrency):
        send()
    while left:
        end_s = replica.begin(now_s)
        if end_s is None:
            assert replica.next_arrival_s is not None
            now_s = replica.next_arrival_s
            continue
        now_s = end_s
        _, emitted = replica.finish()
        counts = number > first
        tokens += len(emitted) if counts else 0
        for sequence in emitted:
            if sequence.finished:
                ended += counts
                place, one = sent.pop(sequence)
                if first <= place < behind:
                    measured[one].append(sequence)
                    left -= 1
                send()
    return _Stage(measured, now_s - start_s, ended, tokens)


def _p50(mix: Mix, measured: dict[TrafficClass, list[Sequence]]) -> dict[Metric, dict[str, float]]:
    p50: dict[Metric, dict[str, float]] = {metric: {} for metric in METRICS}
    for one in mix.classes:
        sequences = measured[one]
        p50["ttft_ms"][one.name] = median(_ttft_ms(sequence) for sequence in sequences)
        if one.output_tokens > 1:
            p50["tpot_ms"][one.name] = median(_tpot_ms(sequence) for sequence in sequences)
    return p50


def _ttft_ms(sequence: Sequence) -> float:
    assert sequence.first_token_s is not None
    return (sequence.first_token_s - sequence.arrived_s) * 1000


def _tpot_ms(sequence: Sequence) -> float:
    assert sequence.first_token_s is not None and sequence.last_token_s is not None
    return (sequence.last_token_s - sequence.first_token_s) / (sequence.output_tokens - 1) * 1000


def _degradation(mix: Mix, p50: dict[str, float], baseline: dict[str, float]) -> float:
    classes = [one for one in mix.classes if one.name in p50]
    logs = sum(one.weight * math.log(p50[one.name] / baseline[one.name]) for one in classes)
    return math.exp(logs / sum(one.weight for one in classes)) - 1


def truth_document(scenario: Scenario, mix: Mix, truth: Truth) -> dict[str, Any]:
    """For JSON. Shares in percent; `relation` is ">=" when nothing tested was beyond the limit."""
    highest = truth.stages[-1].concurrency
    return {
        "scenario": scenario.name,
        "simulated": True,
        "cause": scenario.cause,
        "mix": mix,
        "criterion": {"stat": "p50", "max_degradation_pct": DEGRADATION_LIMIT * 100},
        "limit": {
            "max_concurrency": truth.limit,
            "relation": ">=" if truth.limited_by is None else "=",
            "limited_by": truth.limited_by,
            "by_metric": {
                metric: {"max_concurrency": limit, "relation": ">=" if limit == highest else "="}
                for metric, limit in truth.limits.items()
            },
        },
        "stages": [
            {
                "concurrency": stage.concurrency,
                "p50": {
                    metric: {name: round(value, 3) for name, value in values.items()}
                    for metric, values in stage.p50.items()
                },
                "degradation_pct": {metric: round(100 * share, 2) for metric, share in stage.degradation.items()},
                "requests_per_s": round(stage.requests_per_s, 3),
                "output_tokens_per_s": round(stage.output_tokens_per_s, 1),
            }
            for stage in truth.stages
        ],
    }
