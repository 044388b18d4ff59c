"""How to measure one stage of a run again without Brimline: the load generator's plan and the command. Holds no secret:
the key is named by an environment variable, and headers by their names only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from campaigns.models import Run, StageKind
from campaigns.services.sequence import PlannedStage
from campaigns.services.stage_plan import generation_of, stage_plan

KEY_VARIABLE = "TARGET_API_KEY"


@dataclass(frozen=True, slots=True)
class Reproduction:
    """`plan` is PLAN.json; `missing_headers` have values that are not given out and have to be put in by hand."""

    plan: dict[str, Any]
    command: str
    missing_headers: tuple[str, ...]


def reproduction_of(run: Run) -> Reproduction:
    """The stage at the load line, or the largest whole one, or the first of the plan."""
    plan = run.frozen_plan
    unsupported = ((run.preflight or {}).get("detected") or {}).get("unsupported_fields") or []
    result = getattr(run, "result", None)
    line = int(result.load_line) if result and result.load_line else None
    largest = run.stages.whole().order_by("-concurrency").values_list("concurrency", flat=True).first()
    stage = PlannedStage(StageKind.LADDER, line or largest or plan.stages[0], plan.warmup_s, plan.stage_s)
    first = run.stages.whole().order_by("index").first()
    # What the run learnt of the server's tokens, so that prompts are of the same size.
    learnt = (first.summary or {}).get("calibration") if first else None
    document = stage_plan(plan, stage, {}, generation_of(plan, unsupported), learnt)
    if plan.target.has_api_key:
        document = {**document, "api_key_env": KEY_VARIABLE}
    key = f"{KEY_VARIABLE}=… " if plan.target.has_api_key else ""
    return Reproduction(
        document, f"{key}python -m workers.loadgen PLAN.json --out OUT", tuple(plan.target.header_names)
    )
