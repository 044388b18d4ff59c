"""From stored request logs to stored results: decodes the logs, has them analysed, and keeps what the analysis says.

The one place that knows both how stages are stored and what the analysis takes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from campaigns.analysis.criteria import Criterion
from campaigns.analysis.requests import RequestTable
from campaigns.analysis.summary import RunAnalysis, RunInput
from campaigns.analysis.summary import analyse_run as analyse
from campaigns.analysis.validity import StageInput
from campaigns.analysis.wire import results_dict, stage_dict
from campaigns.models import Run, RunResult, Stage, StageKind
from campaigns.models.plan import RunPlan
from campaigns.services.mix_lengths import intended_cached_share, median_output_tokens
from campaigns.services.sequence import BASELINE_CONCURRENCY


def analyse_run(run_id: int) -> RunResult | None:
    """Analyse the whole stages and keep the result, over an earlier one. None, and nothing kept, without a baseline.

    The run is read here: what its conductor has found out since it took it (such as `simulated`) is in the result.
    """
    run = Run.objects.select_related("campaign").get(pk=run_id)
    plan = run.frozen_plan
    stages = list(run.stages.whole().select_related("request_log").order_by("index"))
    if not any(stage.kind == StageKind.BASELINE for stage in stages):
        return None
    analysis = analyse_stages(plan, [decode_stage(stage, plan) for stage in stages])
    keep_stage_results(stages, analysis)
    limit = analysis.line.max_concurrency
    result, _ = RunResult.objects.update_or_create(
        run=run,
        defaults={
            "verdict": analysis.line.verdict,
            "load_line": limit.value,
            "load_line_low": limit.low,
            "load_line_high": limit.high,
            "relation": limit.relation or "",
            "text": limit.text,
            "document": _document(run, stages, analysis),
        },
    )
    return result


def analyse_stages(plan: RunPlan, stages: Sequence[StageInput]) -> RunAnalysis:
    """The analysis of the stages so far; `stages` begin with the baseline."""
    criteria = tuple(Criterion(one.metric, one.stat, one.max_degradation_pct, one.max_value) for one in plan.criteria)
    return analyse(
        RunInput(
            stages=tuple(stages),
            criteria=criteria,
            weights=plan.mix.weights,
            seed=plan.seed,
            baseline_is_rung=BASELINE_CONCURRENCY in plan.stages,
        )
    )


def keep_stage_results(stages: Sequence[Stage], analysis: RunAnalysis) -> None:
    """Write `Stage.result` of each stage; `stages` in the order of the analysis."""
    for stage, one in zip(stages, analysis.stages, strict=True):
        stage.result = stage_dict(one)
    Stage.objects.bulk_update(stages, ["result"])


def decode_stage(stage: Stage, plan: RunPlan) -> StageInput:
    """A whole stage with its request log, as the analysis takes it."""
    summary: Mapping[str, Any] = stage.summary or {}
    client: Mapping[str, Any] = summary.get("client") or {}
    lateness_ms: Mapping[str, Any] = client.get("lateness_ms") or {}
    return StageInput(
        concurrency=stage.concurrency,
        kind=stage.kind,  # type: ignore[arg-type]
        table=decode_log(bytes(stage.request_log.arrow)),
        window_s=summary["window_s"],
        window_start_s=stage.warmup_s,
        in_flight_mean=summary.get("in_flight_mean"),
        users_think=any(one.get("think_s") for one in plan.mix.classes),
        lateness_p99_ms=lateness_ms.get("p99"),
        lateness_judged_ms=lateness_ms.get("p50" if all(one.stat == "p50" for one in plan.criteria) else "p99"),
        receive_delay_p99_ms=(client.get("receive_delay_ms") or {}).get("p99"),
        cpu_share=client.get("cpu_share"),
        planned_output_tokens=median_output_tokens(plan.mix),
        intended_cached_share=intended_cached_share(plan.mix),
        timeout_s=plan.timeout_s,
    )


def decode_log(arrow: bytes) -> RequestTable:
    """An Arrow IPC file's rows."""
    with pa.ipc.open_file(pa.py_buffer(arrow)) as reader:
        table = reader.read_all()
    return RequestTable.from_columns({name: _column(table.column(name)) for name in table.column_names})


def _column(column: pa.ChunkedArray) -> Any:
    if pa.types.is_integer(column.type) or pa.types.is_floating(column.type) or pa.types.is_boolean(column.type):
        return column.to_numpy()
    return column.to_pylist()


def _document(run: Run, stages: Sequence[Stage], analysis: RunAnalysis) -> dict[str, Any]:
    """The API's `results` object."""
    results = results_dict(analysis)
    merged = [
        {"index": stage.index, "warmup_s": stage.warmup_s, "measure_s": stage.measure_s, **(stage.summary or {}), **one}
        for stage, one in zip(stages, results["stages"], strict=True)
    ]
    plan = run.frozen_plan
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
        **results,
        "stages": merged,
        "findings": [],
    }
