"""What the API answers, as types: the OpenAPI document comes from here, and no other field leaves an operation."""

from __future__ import annotations

from typing import Annotated, Any, Generic, Literal, TypeVar

from ninja import Schema
from pydantic import ConfigDict, Field

from campaigns.models import Protocol, RunState, StageKind

T = TypeVar("T")

Timestamp = Annotated[str, Field(json_schema_extra={"format": "date-time"}, examples=["2025-06-01T12:00:00+00:00"])]


class ErrorDetail(Schema):
    code: str = Field(examples=["invalid"], description="For programs; stable.")
    message: str = Field(description="What is wrong and what to do, in words.")
    fields: dict[str, list[str]] = Field(description="The same a field, where a field is to blame; else empty.")


class Error(Schema):
    error: ErrorDetail


_Refusals = dict[int, Any]


def answers(status: int, body: Any, *errors: int) -> _Refusals:
    """An operation's `response`: its success, and the errors it can give; every operation can give 401 and 403."""
    return {status: body, **dict.fromkeys(sorted({401, 403, *errors}), Error)}


class Page(Schema, Generic[T]):
    items: list[T]
    next: int | None = Field(description="Send it as `cursor` to get the next page; null on the last one.")


class Check(Schema):
    name: str
    ok: bool
    required: bool = Field(description="Whether a run can start without it.")
    detail: str
    hint: str = Field(description="What to do when it is not ok; else empty.")


class Preflight(Schema):
    """What a look at the target found out."""

    ok: bool = Field(description="Whether every required check is ok.")
    checks: list[Check]
    detected: dict[str, Any] = Field(
        description="What the target says of itself.",
        examples=[{"engine": "vLLM", "model": "m", "max_model_len": 8192}],
    )
    simulated: bool = Field(description="Whether the target is a simulated engine.")


class Target(Schema):
    """A deployment under test. Its key and the values of its headers can be written and never read."""

    id: int
    name: str
    base_url: str
    model: str
    protocol: Protocol
    has_api_key: bool
    header_names: list[str]
    verify_tls: bool
    gpu_count: int | None
    gpu_model: str
    queue: str = Field(description="The queue of the workers that drive the load; empty: the default one.")
    metrics: list[dict[str, Any]]
    tags: list[str]
    preflight: dict[str, Any] | None = Field(description="The newest preflight, with `at`; null when none was made.")
    created_by: str | None
    created_at: Timestamp
    updated_at: Timestamp
    archived_at: Timestamp | None


class Mix(Schema):
    """The classes of requests, their weights and their lengths."""

    id: int
    name: str
    classes: list[dict[str, Any]] = Field(description="Each as a TrafficClass.")
    shared_prefix_tokens: int
    created_by: str | None
    created_at: Timestamp
    updated_at: Timestamp
    archived_at: Timestamp | None


class Criterion(Schema):
    """What a stage must hold: relative to the baseline, or an absolute limit in the metric's own unit."""

    metric: str
    stat: str
    max_degradation_pct: float | None = None
    max_value: float | None = None


class Refine(Schema):
    enabled: bool
    budget_s: float


class Abort(Schema):
    error_pct: float
    after_s: float


class Campaign(Schema):
    """A target, a mix and the plan of stages."""

    id: int
    name: str
    target: int
    target_name: str
    mix: int
    mix_name: str
    stages: list[int]
    stage_s: float
    warmup_s: float
    drain_s: float
    baseline_s: float | None = Field(description="null: as long as a stage.")
    timeout_s: float
    criteria: list[Criterion]
    refine: Refine
    repeats: int
    abort: Abort
    load: str
    drivers: list[str]
    generation: dict[str, Any]
    seed: int
    created_by: str | None
    created_at: Timestamp
    updated_at: Timestamp


class Event(Schema):
    """Something that happened to a run."""

    id: int
    at: Timestamp
    kind: str
    message: str
    data: dict[str, Any]


class Events(Schema):
    items: list[Event]
    next: int | None = Field(description="Send it as `after` to go on; null when there is nothing newer yet.")


class LimitedBy(Schema):
    """The criterion that gives out first, and in which class of requests, where one stands out."""

    metric: str
    stat: str
    class_name: str | None = Field(None, alias="class")


class LoadLine(Schema):
    """The highest concurrency at which every criterion holds."""

    value: int | None
    low: int | None
    high: int | None
    relation: Literal["=", ">=", "<"] | None = Field(description="null: no load line; `text` says why.")
    passed: int | None = Field(description="The highest concurrency that was tested and held.")
    failed: int | None = Field(description="The lowest concurrency that was tested and did not hold.")
    limited_by: LimitedBy | None
    text: str
    estimate: float | None = Field(description="Where a smooth curve through the stages crosses the limit.")
    unsure: list[int] = Field(description="Concurrencies that were too noisy to decide.")


class CriterionLine(Criterion):
    """One criterion, and the load line that it alone would give."""

    max_concurrency: LoadLine


class Degradation(Schema):
    """How much worse than the baseline, with a 95% interval."""

    pct: float | None
    low: float | None
    high: float | None
    per_class: dict[str, float | None]
    left_out: list[str] = Field(description="Classes with too few requests to compare.")


class StageCheck(Schema):
    """One reason for which a stage may not count."""

    name: str
    ok: bool | None = Field(description="null: cannot tell.")
    severity: str
    value: float | None
    limit: float | None
    reason: str
    remedy: str


class Latency(Schema):
    mean: float | None
    p50: float | None
    p90: float | None
    p95: float | None
    p99: float | None
    min: float | None
    max: float | None
    count: int


class StageFindings(Schema):
    """What the analysis says of a stage."""

    concurrency: int
    kind: StageKind
    valid: bool
    invalid_reasons: list[str]
    warnings: list[str]
    checks: list[StageCheck]
    within: Literal["within", "beyond", "unsure"] | None
    degradation: dict[str, dict[str, Degradation]] = Field(description="{metric: {stat: …}}")


class StageResult(StageFindings):
    """A stage: its verdict, and every figure of the load generator's summary."""

    index: int
    warmup_s: float
    measure_s: float
    ttft_ms: Latency | None = None
    tpot_ms: Latency | None = None
    itl_ms: Latency | None = None
    e2e_ms: Latency | None = None
    output_tokens_per_s: float | None = None
    requests_per_s: float | None = None

    model_config = ConfigDict(extra="allow")


class Baseline(Schema):
    """The single-request baseline before and after the ladder; what lies between the two is drift."""

    opening: StageFindings | None
    closing: StageFindings | None
    drift_pct: float | None
    drift: dict[str, float | None]


class Scaling(Schema):
    """The fitted curve of throughput over concurrency."""

    lambda_: float | None = Field(alias="lambda")
    sigma: float | None = Field(description="Contention.")
    kappa: float | None = Field(description="Coherency.")
    peak: float | None
    r2: float | None
    model: Literal["usl", "capped", "linear"]
    words: str

    model_config = ConfigDict(extra="allow")


class RunSummary(Schema):
    id: int
    label: str
    campaign: int
    campaign_name: str
    target: int
    target_name: str
    model: str
    mix: int
    mix_name: str
    simulated: bool
    started_at: Timestamp | None
    brimline: str = Field(description="The version that launched it.")


class Results(Schema):
    """The verdict of a run and what it rests on. Latencies are in ms; null means no data."""

    run: RunSummary
    verdict: Literal["ok", "drifted", "baseline_unstable", "no_valid_stage"]
    max_concurrency: LoadLine
    per_criterion: list[CriterionLine]
    confidence: Literal["normal", "low"]
    doubts: list[str]
    notes: list[str]
    baseline: Baseline
    stages: list[StageResult]
    scaling: Scaling | None
    findings: list[dict[str, Any]]


class Progress(Schema):
    """Where an active run is: stage `stage` (from 1) of about `stages`, since refinement is a guess."""

    phase: str = Field(description="queued, preflight, warmup, measure, drain, between, analysing or over.")
    stage: int | None
    stages: int | None
    kind: StageKind | None
    concurrency: int | None
    elapsed_s: float | None
    eta_s: float | None = Field(description="null until the first stage is whole.")
    stage_elapsed_s: float | None
    stage_s: float | None
    in_flight: int | None
    output_tokens_per_s: float | None
    requests_ok: int | None
    requests_failed: int | None
    waiting: str | None = Field(description="Why a queued run will not be started, and what to do.")


class Headline(Schema):
    """The verdict in short; `results` has all of it."""

    verdict: str
    load_line: float | None
    low: float | None
    high: float | None
    relation: str | None
    text: str


class Run(Schema):
    """One launch of a campaign, with its own copy of everything it depends on."""

    id: int
    campaign: int
    campaign_name: str
    target: int
    target_name: str
    mix: int
    mix_name: str
    label: str
    notes: str
    deployment: dict[str, Any]
    state: RunState
    end_reason: str = Field(description="Why it ended, in words; empty until then.")
    simulated: bool
    preflight: dict[str, Any] | None = Field(description="What the run's own preflight saw.")
    plan: dict[str, Any] = Field(description="Target, mix and stages as they were at the launch; no secrets.")
    progress: Progress | None = Field(description="null when the run is over.")
    result: Headline | None = Field(description="null while the run is not analysed.")
    worker: str
    cancel_requested_at: Timestamp | None
    cancel_requested_by: str | None
    created_by: str | None
    created_at: Timestamp
    started_at: Timestamp | None
    ended_at: Timestamp | None
    links: dict[str, str]
