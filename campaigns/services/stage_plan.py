"""The load generator's plan of one stage, from the run's frozen plan and what preflight found. Pure."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any

from campaigns.models import StageKind
from campaigns.models.plan import RunPlan
from campaigns.services.sequence import PlannedStage

# One process of the generator keeps its time up to about this many streams.
STREAMS_A_PROCESS = 500
# The same work for the same request: no sampling, and no early end where the server can be told so.
FIXED_WORK = {"temperature": 0, "ignore_eos": True}

CALIBRATION = ("words_per_token", "overhead_tokens")
# One token of output each: what a server makes of so many words shows in seconds, and the two lengths tell its own
# tokens (a chat template) from those of the words.
CALIBRATION_CLASSES = (
    {"name": "few words", "weight": 1, "input_tokens": 40, "output_tokens": 1},
    {"name": "many words", "weight": 1, "input_tokens": 200, "output_tokens": 1},
)
CALIBRATION_REQUESTS = 6
CALIBRATION_MAX_S = 30.0


def generation_of(plan: RunPlan, unsupported: Collection[str]) -> dict[str, Any]:
    """The request's fields beside prompt and length; null takes one out, also one that the generator sets itself."""
    return {**FIXED_WORK, **plan.generation, **dict.fromkeys(unsupported)}


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


def calibration_plan(plan: RunPlan, headers: Mapping[str, str], generation: Mapping[str, Any]) -> dict[str, Any]:
    """A few tiny requests from which the generator learns how the server counts words, before the first stage: prompts
    are then of the same size in all of them. What it learnt stands in its summary."""
    # All of it is warm-up, since there the generator learns; it ends with the last request.
    stage = PlannedStage(StageKind.BASELINE, 1, warmup_s=CALIBRATION_MAX_S, measure_s=1)
    mix = {"classes": list(CALIBRATION_CLASSES), "shared_prefix_tokens": 0}
    return {
        **stage_plan(plan, stage, headers, generation, None),
        "mix": mix,
        "max_requests": CALIBRATION_REQUESTS,
        "drain_s": 0,
    }
