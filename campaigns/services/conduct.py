"""What a conductor writes about the run that it holds. Every write that could change a result first makes sure, under
the run's row lock, that the claim still holds: a conductor that was taken for lost writes nothing any more.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.utils import timezone

from campaigns.models import RequestLog, Run, RunEvent, RunState, Stage, StageState, StageTick
from campaigns.services.sequence import PlannedStage


class ClaimLost(Exception):
    """The run was taken away from this conductor; it must leave without another word."""


@dataclass(frozen=True, slots=True)
class Hold:
    """A run and the claim under which its conductor holds it."""

    run_id: int
    claim: uuid.UUID


def take_run(run_id: int, worker: str) -> Hold | None:
    """Claim a queued run; None when it is not to be had. A stage that an earlier conductor left is now partial."""
    claim = Run.objects.claim(run_id, worker)
    if claim is None:
        return None
    hold = Hold(run_id, claim)
    with _held(hold) as run:
        resumed = run.stages.exists()
        leave_stages_partial(run)
        record_event(run, "started", f"{'Resumed' if resumed else 'Started'} on {worker}", {"worker": worker})
    return hold


def record_preflight(hold: Hold, report: Mapping[str, Any], simulated: bool) -> None:
    """`report` as the API shows it. Raises ClaimLost."""
    with _held(hold) as run:
        run.preflight = storable(dict(report))
        run.simulated = simulated
        run.save(update_fields=["preflight", "simulated"])
        passed = "passed" if report.get("ok") else "failed"
        record_event(run, "preflight", f"Preflight {passed}", {"ok": report.get("ok")})


def begin_stage(hold: Hold, planned: PlannedStage) -> Stage:
    """The row of a stage that runs from now on. Raises ClaimLost."""
    with _held(hold) as run:
        index = run.stages.count()
        stage = Stage.objects.create(
            run=run,
            index=index,
            kind=planned.kind,
            concurrency=planned.concurrency,
            warmup_s=planned.warmup_s,
            measure_s=planned.measure_s,
        )
        message = f"Stage {index + 1}: {planned.kind} at {planned.concurrency}"
        record_event(run, "stage_started", message, _about(stage))
    return stage


def record_tick(stage: Stage, progress: Mapping[str, Any]) -> None:
    """A progress line of the generator. Live progress is no result, so it is not worth a lock."""
    tick = StageTick(stage=stage, t_s=progress["t_s"], progress=storable(dict(progress)))
    StageTick.objects.bulk_create([tick], ignore_conflicts=True)


def finish_stage(hold: Hold, stage: Stage, summary: Mapping[str, Any], arrow: bytes, rows: int) -> None:
    """Keep the whole stage: its summary and its request log together. Raises ClaimLost."""
    with _held(hold) as run:
        stage.state = StageState.DONE
        stage.summary = storable(dict(summary))
        stage.ended_at = timezone.now()
        stage.save(update_fields=["state", "summary", "ended_at"])
        RequestLog.objects.create(stage=stage, rows=rows, arrow=arrow)
        message = f"Stage {stage.index + 1} done: {stage.kind} at {stage.concurrency}, {rows} requests"
        record_event(run, "stage_done", message, _about(stage))


def leave_stage_partial(hold: Hold, stage: Stage, why: str) -> None:
    """The stage takes no part in any result. Raises ClaimLost."""
    with _held(hold) as run:
        leave_stages_partial(run)
        record_event(run, "stage_partial", f"Stage {stage.index + 1} is not whole: {why}", _about(stage))


def begin_analysis(hold: Hold) -> None:
    """Raises ClaimLost."""
    with _held(hold) as run:
        Run.objects.advance(hold.run_id, hold.claim, RunState.ANALYSING)
        record_event(run, "analysing", "All stages are done; analysing")


def end_run(hold: Hold, state: RunState, reason: str) -> None:
    """Raises ClaimLost."""
    with _held(hold) as run:
        leave_stages_partial(run)
        Run.objects.end(hold.run_id, state, storable(reason), hold.claim)
        record_event(run, str(state), reason)


def tell(hold: Hold, kind: str, message: str, data: Mapping[str, Any] | None = None) -> None:
    """An event of a run that is held. Raises ClaimLost."""
    with _held(hold) as run:
        record_event(run, kind, message, data)


def record_event(run: Run, kind: str, message: str, data: Mapping[str, Any] | None = None) -> None:
    RunEvent.objects.create(run=run, kind=kind, message=storable(message), data=storable(dict(data or {})))


def leave_stages_partial(run: Run) -> None:
    """A stage that nobody drives any more is partial."""
    run.stages.filter(state=StageState.RUNNING).update(state=StageState.PARTIAL, ended_at=timezone.now())


def storable(value: Any) -> Any:
    """`value` as PostgreSQL can keep it: text that servers sent may hold U+0000 or lone surrogates."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode().replace("\0", "\ufffd")
    if isinstance(value, dict):
        return {storable(key): storable(one) for key, one in value.items()}
    if isinstance(value, list):
        return [storable(one) for one in value]
    return value


@contextmanager
def _held(hold: Hold) -> Iterator[Run]:
    with transaction.atomic():
        run = Run.objects.select_for_update().filter(pk=hold.run_id, claim=hold.claim).first()
        if run is None:
            raise ClaimLost(f"run {hold.run_id} is no longer held by claim {hold.claim}")
        yield run


def _about(stage: Stage) -> dict[str, Any]:
    return {"stage": stage.index, "kind": str(stage.kind), "concurrency": stage.concurrency}
