"""What is known of a run, as the API shows it: its state, its results, and what happened, in order."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from django.contrib.auth.models import AbstractBaseUser

from campaigns.models import Run, RunResult
from campaigns.services.errors import Conflict
from campaigns.services.progress import progress_of

API = "/api/v1/runs"


def describe_run(run: Run) -> dict[str, Any]:
    """The run as the API shows it. Lists select campaign, target, result, created_by and cancel_requested_by along."""
    return {
        "id": run.pk,
        "campaign": run.campaign_id,
        "campaign_name": run.campaign.name,
        "target": run.target_id,
        "target_name": run.plan["target"]["name"],
        "mix": run.plan["mix"]["id"],
        "mix_name": run.plan["mix"]["name"],
        "label": run.label,
        "notes": run.notes,
        "deployment": run.deployment,
        "state": run.state,
        "end_reason": run.end_reason,
        "simulated": run.simulated,
        "preflight": run.preflight,
        "plan": run.plan,
        "progress": None if run.is_over else asdict(progress_of(run)),
        "result": _headline(run),
        "worker": run.worker,
        "cancel_requested_at": run.cancel_requested_at.isoformat() if run.cancel_requested_at else None,
        "cancel_requested_by": _name(run.cancel_requested_by),
        "created_by": _name(run.created_by),
        "created_at": run.created_at.isoformat(),
        "started_at": run.started_at.isoformat() if run.started_at else None,
        "ended_at": run.ended_at.isoformat() if run.ended_at else None,
        "links": {
            "self": f"{API}/{run.pk}",
            "results": f"{API}/{run.pk}/results",
            "events": f"{API}/{run.pk}/events",
            "requests": f"{API}/{run.pk}/requests",
            "page": f"/runs/{run.pk}/",
        },
    }


def results_of(run: Run) -> dict[str, Any]:
    """The stored results, as the API shows them. Raises Conflict while there are none."""
    result = RunResult.objects.filter(run=run).first()
    if result is None:
        state = run.get_state_display().lower()
        if run.is_over:
            raise Conflict(f"Run {run.pk} has no results: {state}: {run.end_reason}")
        raise Conflict(f"Run {run.pk} is not analysed yet: it is {state}")
    return dict(result.document)


def events_after(run: Run, after_id: int, limit: int) -> list[dict[str, Any]]:
    """At most `limit` events with an id above `after_id`, in order; 0 starts at the beginning."""
    events = run.events.filter(pk__gt=after_id).order_by("pk")[:limit]
    return [
        {"id": one.pk, "at": one.at.isoformat(), "kind": one.kind, "message": one.message, "data": one.data}
        for one in events
    ]


def _headline(run: Run) -> dict[str, Any] | None:
    """The verdict and the load line; null while the run is not analysed."""
    result = getattr(run, "result", None)
    if result is None:
        return None
    return {
        "verdict": result.verdict,
        "load_line": result.load_line,
        "low": result.load_line_low,
        "high": result.load_line_high,
        "relation": result.relation or None,
        "text": result.text,
    }


def _name(user: AbstractBaseUser | None) -> str | None:
    return user.get_username() if user else None
