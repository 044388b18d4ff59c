"""The load generator's plan of one stage, from the run's frozen plan and what preflight found. Pure."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any

from campaigns.models.plan import RunPlan
from campaigns.services.sequence import PlannedStage

# One process of the generator keeps its time up to about this many streams.
STREAMS_A_PROCESS = 500
# The same work for the same request: no sampling, and no early end where the server can be told so.
FIXED_WORK = {"temperature": 0, "ignore_eos": True}

CALIBRATION = ("words_per_token", "overhead_tokens")


def generation_of(plan: RunPlan, unsupported: Collection[str]) -> dict[str, Any]:
    """The request's fields beside prompt and length; those that the server does not know are left out."""
    return {name: value for name, value in {**FIXED_WORK, **plan.generation}.items() if name not in unsupported}


def stage_plan(
    plan: RunPlan,
    stage: PlannedStage,
    headers: Mapping[str, str],
    generation: Mapping[str, Any],
    calibration: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """`calibration`: what an earlier stage's summary says about the server's tokens, so that sizes stay alike."""
    target = plan.target
    return {
        "base_url": target.base_url,
        "model": target.model,
        "protocol": target.protocol,
        "headers": dict(headers),
        "verify_tls": target.verify_tls,
        "load": {"kind": plan.load, "concurrency": stage.concurrency},
        "warmup_s": stage.warmup_s,
        "measure_s": stage.measure_s,
        "drain_s": plan.drain_s,
        "timeout_s": plan.timeout_s,
        "seed": plan.seed,
        "processes": math.ceil(stage.concurrency / STREAMS_A_PROCESS),
        "mix": {"classes": plan.mix.classes, "shared_prefix_tokens": plan.mix.shared_prefix_tokens},
        "request": dict(generation),
        "calibration": {name: calibration[name] for name in CALIBRATION} if calibration else None,
    }
