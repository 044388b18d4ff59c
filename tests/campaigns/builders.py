"""Rows that tests of pages begin with: `make_run(stages=[…])` is a run with stages, a live history, and results in the
shape of the API's `results`, as the analysis writes them."""

from __future__ import annotations

import math
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth.models import User
from django.utils import timezone

from campaigns.models import (
    Campaign,
    Membership,
    Mix,
    RequestLog,
    Role,
    Run,
    RunEvent,
    RunResult,
    RunState,
    Stage,
    StageState,
    StageTick,
    Target,
)
from campaigns.services.mixes import PRESETS
from campaigns.services.plans import freeze

PASSWORD = "correct-horse-battery"
WARMUP_S, MEASURE_S = 5.0, 40.0


@dataclass(frozen=True)
class StageSpec:
    """What a stage measured. `slower`: times the baseline's latency; null: as the model of the service says."""

    concurrency: int
    kind: str = "ladder"
    valid: bool = True
    invalid_reasons: tuple[str, ...] = ()
    slower: float | None = None
    requests: int = 240
    failed: int = 0
    state: str = StageState.DONE

    @property
    def ttft_ms(self) -> float:
        return 120.0 * (self.slower or 1 + 0.5 * (self.concurrency / 24) ** 1.5 if self.concurrency > 1 else 1)

    @property
    def tpot_ms(self) -> float:
        return 14.0 * (self.slower or 1 + 0.26 * (self.concurrency / 30) ** 1.2 if self.concurrency > 1 else 1)


LADDER = (
    StageSpec(1, "baseline", requests=120),
    StageSpec(5),
    StageSpec(10),
    StageSpec(20),
    StageSpec(30),
    StageSpec(50, valid=False, invalid_reasons=("TTFT rises by 38% across the window: the queue grows",), failed=6),
    StageSpec(25, "refine"),
    StageSpec(22, "refine", requests=24),
    StageSpec(1, "closing", requests=60),
)


def make_user(name: str = "ann", role: str = Role.LAUNCHER) -> User:
    user = User.objects.filter(username=name).first() or User.objects.create_user(name, password=PASSWORD)
    Membership.objects.update_or_create(user=user, defaults={"role": role})
    return user


def make_target(name: str = "vLLM on 4×H200", **fields: Any) -> Target:
    values = {
        "base_url": "http://gpu-1.bench:8000/v1",
        "model": "meta-llama/Llama-3.3-70B-Instruct",
        "gpu_count": 4,
        "gpu_model": "H200",
        "tags": ["fp8", "staging"],
    }
    target = Target.objects.create(name=name, created_by=make_user(), **{**values, **fields})
    target.refresh_from_db()
    return target


def make_mix(name: str = "3:4:3 short/medium/long", **fields: Any) -> Mix:
    return Mix.objects.create(name=name, created_by=make_user(), **{"classes": PRESETS[0].classes, **fields})


def make_campaign(
    name: str = "Nightly ladder", target: Target | None = None, mix: Mix | None = None, **fields: Any
) -> Campaign:
    target = target or Target.objects.current().first() or make_target()
    mix = mix or Mix.objects.current().first() or make_mix()
    return Campaign.objects.create(name=name, target=target, mix=mix, created_by=make_user(), **fields)


def make_run(
    campaign: Campaign | None = None,
    *,
    state: str = RunState.DONE,
    stages: Sequence[StageSpec] = LADDER,
    end_reason: str = "",
    result: bool | dict[str, Any] = True,
    ticks: bool = True,
    **fields: Any,
) -> Run:
    """`result`: whether an ended run has results, or what replaces parts of their document."""
    campaign = campaign or make_campaign()
    begun = state != RunState.QUEUED
    over = state in (RunState.DONE, RunState.CANCELLED, RunState.ABORTED, RunState.FAILED, RunState.INTERRUPTED)
    now = timezone.now()
    length_s = len(stages) * (WARMUP_S + MEASURE_S + 3)
    start = now - timedelta(seconds=length_s)
    active = state in (RunState.RUNNING, RunState.ANALYSING)
    run = Run.objects.create(
        campaign=campaign,
        target=campaign.target,
        plan=freeze(campaign).as_dict(),
        state=state,
        end_reason=end_reason or ("All stages are done" if over else ""),
        started_at=start if begun else None,
        ended_at=now if over else None,
        claim=uuid.uuid4() if active else None,
        heartbeat_at=now if active else None,
        worker="worker@bench" if begun else "",
        created_by=campaign.created_by,
        **fields,
    )
    RunEvent.objects.create(run=run, kind="queued", message=f"Launched by {campaign.created_by}")
    if not begun:
        return run
    rows = [_make_stage(run, index, spec, start, ticks) for index, spec in enumerate(stages)]
    if over and result and stages:
        changes = result if isinstance(result, dict) else {}
        _make_result(run, {**results_document(run, rows, stages), **changes})
    return run


def _make_stage(run: Run, index: int, spec: StageSpec, start: datetime, ticks: bool) -> Stage:
    at = start + timedelta(seconds=index * (WARMUP_S + MEASURE_S + 3))
    running = spec.state == StageState.RUNNING
    stage = Stage.objects.create(
        run=run,
        index=index,
        kind=spec.kind,
        concurrency=spec.concurrency,
        warmup_s=WARMUP_S,
        measure_s=MEASURE_S,
        state=spec.state,
        ended_at=None if running else at + timedelta(seconds=WARMUP_S + MEASURE_S),
        summary=None if running else summary_of(spec),
        result=None if running else {"valid": spec.valid, "within": _within(spec) if spec.valid else None},
    )
    # The row says "now" by itself.
    Stage.objects.filter(pk=stage.pk).update(started_at=at)
    stage.refresh_from_db()
    RunEvent.objects.create(
        run=run, kind="stage_started", message=f"Stage {index + 1}: {spec.kind} at {spec.concurrency}"
    )
    if ticks:
        seconds = 20 if running else int(WARMUP_S + MEASURE_S)
        StageTick.objects.bulk_create(
            StageTick(stage=stage, t_s=float(second), progress=_progress(spec, second)) for second in range(1, seconds)
        )
    if spec.state == StageState.DONE:
        RequestLog.objects.create(stage=stage, rows=spec.requests, arrow=b"")
        RunEvent.objects.create(
            run=run,
            kind="stage_done",
            message=f"Stage {index + 1} done: {spec.kind} at {spec.concurrency}, {spec.requests} requests",
        )
    return stage


def _progress(spec: StageSpec, second: int) -> dict[str, Any]:
    wave = 1 + 0.08 * math.sin(second * 1.7 + spec.concurrency)
    ramp = min(1.0, second / WARMUP_S)
    return {
        "event": "progress",
        "phase": "warmup" if second < WARMUP_S else "measure",
        "t_s": float(second),
        "in_flight": round(spec.concurrency * ramp),
        "sent": second * spec.concurrency,
        "completed": second * spec.concurrency,
        "ok": second * spec.concurrency,
        "failed": spec.failed if second > 30 else 0,
        "output_tokens": int(second * throughput(spec)),
        "output_tokens_per_s": throughput(spec) * ramp * wave,
        "requests_per_s": throughput(spec) / 510,
        "ttft_ms_p50": spec.ttft_ms * wave if second % 4 else None,
        "tpot_ms_p50": spec.tpot_ms * wave,
        "by_outcome": {"ok": second * spec.concurrency, "timeout": spec.failed if second > 30 else 0},
    }


def throughput(spec: StageSpec) -> float:
    """Output tokens/s by the Universal Scalability Law."""
    n = spec.concurrency
    return 68 * n / (1 + 0.012 * (n - 1) + 0.00016 * n * (n - 1))


def _latency(p50: float, count: int) -> dict[str, float]:
    shares = {"mean": 1.08, "p50": 1, "p90": 1.35, "p95": 1.6, "p99": 2.3, "min": 0.7, "max": 3.1}
    return {**{name: p50 * share for name, share in shares.items()}, "count": count}


def summary_of(spec: StageSpec) -> dict[str, Any]:
    """The load generator's summary of a stage."""
    ok = spec.requests - spec.failed
    counts = {"sent": spec.requests + spec.concurrency, "measured": spec.requests, "ok": ok, "timeout": spec.failed}
    none = dict.fromkeys(("refused", "http_error", "connect_error", "stream_error", "cancelled"), 0)
    classes = {}
    for name, share, factor, tokens in (("short", 0.3, 0.6, 200), ("medium", 0.4, 1, 500), ("long", 0.3, 2.1, 800)):
        count = round(ok * share)
        classes[name] = {
            "requests": {**counts, **none, "measured": count, "ok": count, "timeout": 0},
            "ttft_ms": _latency(spec.ttft_ms * factor, count),
            "tpot_ms": _latency(spec.tpot_ms, count),
            "itl_ms": _latency(spec.tpot_ms, count),
            "e2e_ms": _latency(spec.ttft_ms * factor + spec.tpot_ms * tokens, count),
            "input_tokens": _latency(tokens * 1.0, count),
            "output_tokens": _latency(tokens * 1.0, count),
        }
    return {
        "started_at": timezone.now().isoformat(),
        "window_s": MEASURE_S,
        "requests": {**counts, **none},
        "ttft_ms": _latency(spec.ttft_ms, ok),
        "tpot_ms": _latency(spec.tpot_ms, ok),
        "itl_ms": _latency(spec.tpot_ms, ok),
        "e2e_ms": _latency(spec.ttft_ms + spec.tpot_ms * 510, ok),
        "output_tokens_per_s": throughput(spec),
        "requests_per_s": throughput(spec) / 510,
        "in_flight_mean": spec.concurrency * 0.995,
        "token_source": "usage",
        "per_class": classes,
        "client": {"cpu_share": 0.11, "lateness_ms": {"p50": 0.1, "p99": 0.6, "max": 2.0}, "processes": 1},
    }


def results_document(run: Run, stages: Sequence[Stage], specs: Sequence[StageSpec]) -> dict[str, Any]:
    """The API's `results`, in the shape of `campaigns/analysis/wire.py`."""
    plan = run.frozen_plan
    passed = max((one.concurrency for one in specs if one.valid and _within(one) == "within"), default=None)
    beyond = [one.concurrency for one in specs if one.valid and _within(one) == "beyond"]
    failed = min(beyond, default=None)
    text = (
        f"{passed} ({passed}–{failed}): passed {passed}, failed {failed} on TTFT p50"
        if failed
        else f"≥ {passed} (highest tested)"
    )
    limit: dict[str, Any] = {
        "value": passed,
        "low": passed,
        "high": failed,
        "relation": "=" if failed else ">=",
        "passed": passed,
        "failed": failed,
        "limited_by": {"metric": "ttft_ms", "stat": "p50"} if failed else None,
        "text": text,
        "estimate": None if failed is None or passed is None else (passed + failed) / 2,
        "unsure": [],
    }
    rows = [_stage_document(stage, spec) for stage, spec in zip(stages, specs, strict=True)]
    tpot_limit = {**limit, "value": 30, "low": 30, "high": None, "relation": ">=", "failed": None, "limited_by": None}
    failure_limit = {**tpot_limit, "text": "≥ 30 (highest tested)"}
    return {
        "run": {
            "id": run.pk,
            "label": run.label,
            "campaign": run.campaign_id,
            "campaign_name": run.campaign.name,
            "target": run.target_id,
            "target_name": plan.target.name,
            "model": plan.target.model,
            "mix": plan.mix.id,
            "mix_name": plan.mix.name,
            "simulated": run.simulated,
            "started_at": run.started_at.isoformat() if run.started_at else None,
            "brimline": plan.version,
        },
        "verdict": "ok",
        "max_concurrency": limit,
        "per_criterion": [
            {**_criterion("ttft_ms", "p50", 50, None), "max_concurrency": limit},
            {
                **_criterion("tpot_ms", "p50", 50, None),
                "max_concurrency": {**tpot_limit, "text": "≥ 30 (highest tested)"},
            },
            {**_criterion("failure_pct", "mean", None, 1), "max_concurrency": failure_limit},
        ],
        "confidence": "low",
        "doubts": ["a single repetition: its noise is not in the interval"],
        "notes": ["TPOT p50 holds up to 30, so TTFT alone sets the load line."],
        "baseline": {
            "opening": rows[0],
            "closing": rows[-1],
            "drift_pct": 1.8,
            "drift": {"ttft_ms": 1.8, "tpot_ms": -0.4},
        },
        "stages": rows,
        "scaling": {
            "lambda": 68 / 510,
            "sigma": 0.012,
            "kappa": 0.00016,
            "peak": 78.6,
            "peak_throughput": 1830 / 510,
            "r2": 0.998,
            "model": "usl",
            "ceiling": None,
            "knee": None,
            "intervals": {"lambda": {"low": 66 / 510, "high": 70 / 510}},
            "residuals": [0.0],
            "tested_max": 50.0,
            "words": "throughput would peak near 79 users; most of the bend is contention",
        },
        "findings": [],
    }


def _criterion(metric: str, stat: str, pct: float | None, value: float | None) -> dict[str, Any]:
    return {"metric": metric, "stat": stat, "max_degradation_pct": pct, "max_value": value}


def _within(spec: StageSpec) -> str:
    change = 100 * (spec.ttft_ms / 120 - 1)
    return "within" if change <= 50 else "beyond"


def _stage_document(stage: Stage, spec: StageSpec) -> dict[str, Any]:
    few = spec.requests < 30
    reason = f"only {spec.requests} requests: percentiles are uncertain"
    changes = {
        "ttft_ms": {"p50": _change(spec.ttft_ms / 120, spec.requests)},
        "tpot_ms": {"p50": _change(spec.tpot_ms / 14, spec.requests)},
    }
    return {
        "index": stage.index,
        "warmup_s": stage.warmup_s,
        "measure_s": stage.measure_s,
        **(stage.summary or {}),
        "concurrency": spec.concurrency,
        "kind": spec.kind,
        "valid": spec.valid,
        "invalid_reasons": list(spec.invalid_reasons),
        "warnings": [reason] if few else [],
        "checks": [
            {
                "name": "enough_requests",
                "ok": not few,
                "severity": "warning",
                "value": spec.requests,
                "limit": 30,
                "reason": reason if few else "",
                "remedy": "",
            }
        ],
        "within": _within(spec) if spec.valid and spec.kind not in ("baseline", "closing") else None,
        "degradation": {} if spec.kind == "baseline" else changes,
    }


def _change(ratio: float, requests: int) -> dict[str, Any]:
    pct = 100 * (ratio - 1)
    spread = 60 / math.sqrt(requests)
    return {
        "pct": pct,
        "low": pct - spread,
        "high": pct + spread,
        "per_class": {"short": pct - 1, "medium": pct, "long": pct + 1},
        "left_out": [],
    }


def _make_result(run: Run, document: dict[str, Any]) -> RunResult:
    limit = document["max_concurrency"]
    return RunResult.objects.create(
        run=run,
        verdict=document["verdict"],
        load_line=limit["value"],
        load_line_low=limit["low"],
        load_line_high=limit["high"],
        relation=limit["relation"] or "",
        text=limit["text"],
        document=document,
    )
