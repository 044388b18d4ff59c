"""What the live page polls: where the run is, its stages, and what came since the last answer, as JSON.

Everything comes from the database, so a page that is opened late, or twice, shows the whole history.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, JsonResponse
from django.shortcuts import get_object_or_404
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from campaigns.models import Run, Stage, StageKind, StageState, StageTick
from campaigns.pages.query import whole_number
from campaigns.services.progress import progress_of
from campaigns.services.runs import events_after
from campaigns.services.sequence import known_stages

TICKS_A_REPLY = 4000
EVENTS_A_REPLY = 500
# The columns of `ticks.rows` after the time.
SERIES = ("in_flight", "output_tokens_per_s", "ttft_ms_p50", "tpot_ms_p50", "failed")


@dataclass(frozen=True, slots=True)
class StripItem:
    """A stage on the strip. `state`: done, partial, running or next; times in seconds since the run started."""

    kind: str
    concurrency: int
    state: str
    start_s: float | None
    end_s: float | None
    length_s: float
    valid: bool | None
    within: str | None


@require_safe
@login_required
@never_cache
def run_live(request: HttpRequest, pk: int) -> JsonResponse:
    """`?tick=&event=`: the cursor of the answer before; without them everything from the start."""
    run = get_object_or_404(Run.objects.select_related("campaign", "target"), pk=pk)
    after_tick, after_event = (whole_number(request.GET.get(name, "")) for name in ("tick", "event"))
    ticks, last_tick = _ticks_after(run, after_tick)
    events = events_after(run, after_event, EVENTS_A_REPLY)
    return JsonResponse(
        {
            "state": run.state,
            "state_name": run.get_state_display(),
            "is_over": run.is_over,
            "simulated": run.simulated,
            "cancel_requested": run.cancel_requested_at is not None,
            "progress": asdict(progress_of(run)),
            "stages": [asdict(item) for item in strip_of(run)],
            "ticks": {"columns": ["t_s", *SERIES], "rows": ticks},
            "events": events,
            "cursor": {"tick": last_tick, "event": events[-1]["id"] if events else after_event},
            "more": len(ticks) == TICKS_A_REPLY or len(events) == EVENTS_A_REPLY,
        }
    )


def strip_of(run: Run) -> list[StripItem]:
    """The stages so far in order, then those that are sure to come."""
    stages = list(run.stages.order_by("index"))
    begun = [_begun(run, stage) for stage in stages]
    if run.is_over:
        return begun
    return begun + _coming(run, [stage for stage in stages if stage.state != StageState.PARTIAL])


def _begun(run: Run, stage: Stage) -> StripItem:
    result = stage.result or {}
    return StripItem(
        kind=stage.kind,
        concurrency=stage.concurrency,
        state=stage.state,
        start_s=_since_start(run, stage.started_at),
        end_s=_since_start(run, stage.ended_at),
        length_s=stage.warmup_s + stage.measure_s,
        valid=result.get("valid"),
        within=result.get("within"),
    )


def _coming(run: Run, begun: list[Stage]) -> list[StripItem]:
    kinds = {stage.kind for stage in begun}
    if StageKind.CLOSING in kinds:
        return []
    *ladder, closing = known_stages(run.frozen_plan)
    first = sum(stage.kind in (StageKind.BASELINE, StageKind.LADDER) for stage in begun)
    # Refinement begins when the ladder is over, be it before its last stage.
    coming = [closing] if StageKind.REFINE in kinds else [*ladder[first:], closing]
    return [
        StripItem(one.kind, one.concurrency, "next", None, None, one.warmup_s + one.measure_s, None, None)
        for one in coming
    ]


def _ticks_after(run: Run, after: int) -> tuple[list[list[float | None]], int]:
    """Rows of [seconds since the run started, *SERIES] in order, and the cursor behind them."""
    ticks = (
        StageTick.objects.filter(stage__run=run, pk__gt=after)
        .order_by("pk")
        .values_list("pk", "t_s", "progress", "stage__started_at")[:TICKS_A_REPLY]
    )
    rows: list[list[float | None]] = []
    for pk, t_s, progress, started_at in ticks:
        offset_s = _since_start(run, started_at) or 0.0
        rows.append([round(offset_s + t_s, 2), *(progress.get(name) for name in SERIES)])
        after = pk
    return rows, after


def _since_start(run: Run, when: datetime | None) -> float | None:
    if when is None or run.started_at is None:
        return None
    return round((when - run.started_at).total_seconds(), 2)
