"""From the stored `results` document to what the results page shows: a headline in words, tables, and what charts draw.

Pure: it chooses and words, and computes nothing that the analysis has not said, but places on a chart.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _

from campaigns.pages.metrics import metric_name
from campaigns.pages.numbers import significant

Document = Mapping[str, Any]

METRICS = ("ttft_ms", "tpot_ms")
PERCENTILES = ("p50", "p90", "p99")
FIT_POINTS = 60


@dataclass(frozen=True, slots=True)
class LevelFacts:
    """What users felt at one level, in absolute times: medians in ms, and output tokens/s."""

    name: str
    ttft_ms: float | None
    tpot_ms: float | None
    output_tokens_per_s: float | None


@dataclass(frozen=True, slots=True)
class Headline:
    """`value` is None when there is no load line; `title` then says which answer it is instead. `notes`: those that the
    sentence does not hold already. `confidence`: "low", "normal", or empty when there is no answer."""

    value: str | None
    range: str
    title: str
    sentence: str
    limited_by: str
    confidence: str
    doubts: tuple[str, ...]
    notes: tuple[str, ...]
    levels: tuple[LevelFacts, ...]


@dataclass(frozen=True, slots=True)
class CriterionRow:
    label: str
    limit: str
    value: str
    text: str
    binds: bool


@dataclass(frozen=True, slots=True)
class StageRow:
    """`place` is the number of the stage; `mark` one of within, beyond, unsure, none, invalid, and evidence (invalid,
    yet beyond the limit)."""

    place: int
    stage: Document
    mark: str
    few: bool
    failed: int | None


@dataclass(frozen=True, slots=True)
class ClassRow:
    concurrency: int
    kind: str
    name: str
    summary: Document
    change: Mapping[str, float | None]


@dataclass(frozen=True, slots=True)
class MetricColumn:
    """A latency in the tables; `judged` is the statistic whose change is shown."""

    metric: str
    name: str
    judged: str


@dataclass(frozen=True, slots=True)
class ResultsPage:
    headline: Headline
    criteria: tuple[CriterionRow, ...]
    stages: tuple[StageRow, ...]
    classes: tuple[ClassRow, ...]
    charts: dict[str, Any]
    baseline: Document
    scaling: Document | None
    columns: tuple[MetricColumn, ...]


def results_page(document: Document, class_names: Sequence[str]) -> ResultsPage:
    """`class_names`: the classes of the mix in its own order."""
    return ResultsPage(
        headline=_headline(document),
        criteria=tuple(_criterion(document, one) for one in document.get("per_criterion", [])),
        stages=tuple(_stage_row(place, one) for place, one in enumerate(document["stages"], start=1)),
        classes=tuple(_class_rows(document, class_names)),
        charts=chart_data(document),
        baseline=document["baseline"],
        scaling=document.get("scaling"),
        columns=tuple(MetricColumn(one, metric_name(one), judged_stat(document, one) or "p50") for one in METRICS),
    )


def judged_stat(document: Document, metric: str) -> str | None:
    """The statistic of the first criterion that compares `metric` with the baseline."""
    for one in document.get("per_criterion", []):
        if one["metric"] == metric and one.get("max_degradation_pct") is not None:
            return str(one["stat"])
    return None


def change_of(stage: Document, metric: str, stat: str) -> Document | None:
    """How much worse than the baseline: {pct, low, high, …}; None when that is not known."""
    found = ((stage.get("degradation") or {}).get(metric) or {}).get(stat)
    return found if found and found["pct"] is not None else None


def _headline(document: Document) -> Headline:
    limit = document["max_concurrency"]
    titles = {
        "ok": _("Load line"),
        "drifted": _("No verdict: the service drifted"),
        "baseline_unstable": _("No verdict: the baseline is unstable"),
        "no_valid_stage": (
            _("No verdict: no valid stage")
            if any(stage["kind"] in ("ladder", "refine") for stage in document["stages"])
            else _("No verdict: nothing beyond the baseline was measured")
        ),
    }
    has_line = document["verdict"] == "ok" and limit["value"] is not None
    doubts = tuple(document.get("doubts", []))
    return Headline(
        value=_value(limit) if has_line else None,
        range=_range(limit) if has_line else "",
        title=titles[document["verdict"]] if has_line or document["verdict"] != "ok" else _("No load line"),
        sentence=limit["text"],
        limited_by=_limited_by(limit.get("limited_by")),
        # Without an answer there is nothing to be sure of.
        confidence=document.get("confidence", "") if has_line or doubts else "",
        doubts=doubts,
        notes=tuple(note for note in document.get("notes", []) if note not in limit["text"]),
        levels=tuple(_levels(document, limit["value"] if has_line else None)),
    )


def _levels(document: Document, load_line: float | None) -> Iterator[LevelFacts]:
    """The baseline and the stage at the load line, where they are."""
    stages = [stage for stage in document["stages"] if stage["valid"]]
    baseline = next((stage for stage in stages if stage["kind"] == "baseline"), None)
    at_line = next((stage for stage in stages if stage["concurrency"] == load_line and stage is not baseline), None)
    for name, stage in ((_("Baseline"), baseline), (_("At the load line"), at_line)):
        if stage is not None:
            ttft_ms, tpot_ms = ((stage.get(metric) or {}).get("p50") for metric in METRICS)
            yield LevelFacts(name, ttft_ms, tpot_ms, stage.get("output_tokens_per_s"))


def _value(limit: Document) -> str:
    if limit["value"] is None:
        return "—"
    sign = {">=": "≥ ", "<": "< "}.get(limit["relation"], "")
    return sign + significant(limit["value"], 4)


def _range(limit: Document) -> str:
    if limit["low"] is None or limit["high"] is None:
        return ""
    return f"{significant(limit['low'], 4)}–{significant(limit['high'], 4)}"


def _limited_by(limited: Document | None) -> str:
    if not limited:
        return ""
    metric = metric_name(limited["metric"])
    name = metric if limited["metric"] == "failure_pct" else f"{metric} {limited['stat']}"
    return (
        _("%(metric)s of the class %(class)s") % {"metric": name, "class": limited["class"]}
        if limited.get("class")
        else name
    )


def _criterion(document: Document, one: Document) -> CriterionRow:
    limit = one["max_concurrency"]
    metric = metric_name(one["metric"])
    failure = one["metric"] == "failure_pct"
    if one.get("max_degradation_pct") is not None:
        words = _("at most %(pct)s%% over the baseline") % {"pct": significant(one["max_degradation_pct"])}
    elif failure:
        words = _("below %(pct)s%%") % {"pct": significant(one["max_value"])}
    else:
        words = _("at most %(value)s ms") % {"value": significant(one["max_value"])}
    binding = document["max_concurrency"].get("limited_by") or {}
    return CriterionRow(
        label=metric if failure else f"{metric} {one['stat']}",
        limit=words,
        value=_value(limit),
        text=limit["text"],
        binds=binding.get("metric") == one["metric"] and (failure or binding.get("stat") == one["stat"]),
    )


def _stage_row(place: int, stage: Document) -> StageRow:
    requests = stage.get("requests") or {}
    measured, ok = requests.get("measured"), requests.get("ok")
    few = any(check["name"] == "enough_requests" and check["ok"] is False for check in stage.get("checks", []))
    return StageRow(
        place=place,
        stage=stage,
        mark=_mark(stage),
        few=few,
        failed=None if measured is None or ok is None else measured - ok - requests.get("cancelled", 0),
    )


def _mark(stage: Document) -> str:
    within = stage.get("within") or "none"
    if stage["valid"]:
        return within
    return "evidence" if within == "beyond" else "invalid"


def _class_rows(document: Document, names: Sequence[str]) -> list[ClassRow]:
    rows = []
    for stage in document["stages"]:
        classes = stage.get("per_class") or {}
        for name in (name for name in names if name in classes):
            change = {metric: _class_change(document, stage, metric, name) for metric in METRICS}
            rows.append(ClassRow(stage["concurrency"], stage["kind"], name, classes[name], change))
    return rows


def _class_change(document: Document, stage: Document, metric: str, name: str) -> float | None:
    found = change_of(stage, metric, judged_stat(document, metric) or "p50")
    return found.get("per_class", {}).get(name) if found else None


def chart_data(document: Document) -> dict[str, Any]:
    """What the charts draw. Latencies in ms, throughput in output tokens/s; null is a gap."""
    limit = document["max_concurrency"]
    has_line = document["verdict"] == "ok" and limit["value"] is not None
    stages = sorted(document["stages"], key=lambda stage: stage["concurrency"])
    return {
        "run": document["run"].get("id"),
        "simulated": bool(document["run"].get("simulated")),
        "load_line": {"value": limit["value"], "low": limit["low"], "high": limit["high"]} if has_line else None,
        "latency": {metric: _latency(document, stages, metric) for metric in METRICS},
        "throughput": _throughput(document, stages),
    }


def _latency(document: Document, stages: list[Document], metric: str) -> dict[str, Any]:
    criteria = [one for one in document.get("per_criterion", []) if one["metric"] == metric]
    judged = judged_stat(document, metric)
    opening: Document = next((stage for stage in document["stages"] if stage["kind"] == "baseline"), {})
    limits = []
    for one in criteria:
        base = (opening.get(metric) or {}).get(one["stat"])
        if one.get("max_value") is not None:
            limits.append({"stat": one["stat"], "value": one["max_value"], "text": f"{one['stat']} limit"})
        elif base is not None:
            factor = 1 + one["max_degradation_pct"] / 100
            text = f"{one['stat']} limit: {factor:g} × baseline"
            limits.append({"stat": one["stat"], "value": base * factor, "text": text})
    return {
        "judged": judged,
        "limits": limits,
        "points": [_latency_point(stage, metric, judged, opening) for stage in stages],
    }


def _latency_point(stage: Document, metric: str, judged: str | None, opening: Document) -> dict[str, Any]:
    found = stage.get(metric) or {}
    change = ((stage.get("degradation") or {}).get(metric) or {}).get(judged) or {}
    base = (opening.get(metric) or {}).get(judged)

    def placed(pct: float | None) -> float | None:
        # The judged change is weighted by class; on the chart it is a place above the baseline.
        return None if pct is None or base is None else base * (1 + pct / 100)

    return {
        "x": stage["concurrency"],
        "kind": stage["kind"],
        "valid": stage["valid"],
        "within": stage.get("within"),
        "count": found.get("count"),
        **{name: found.get(name) for name in PERCENTILES},
        "low": placed(change.get("low")),
        "high": placed(change.get("high")),
    }


def _throughput(document: Document, stages: list[Document]) -> dict[str, Any]:
    points = [
        {
            "x": stage["concurrency"],
            # In requests, as the fit is: with a mix of fixed sizes tokens follow.
            "y": stage.get("requests_per_s"),
            "output_tokens_per_s": stage.get("output_tokens_per_s"),
            "kind": stage["kind"],
            "valid": stage["valid"],
        }
        for stage in stages
    ]
    scaling = document.get("scaling")
    return {"points": points, "fit": fit_curve(scaling) if scaling else [], "model": scaling and scaling.get("model")}


def fit_curve(scaling: Document) -> list[dict[str, float]]:
    """The fit over the tested range: X(N) = λN / (1 + σ(N−1) + κN(N−1)), cut at the ceiling of a capped one."""
    lambda_, sigma, kappa, last = (scaling.get(name) for name in ("lambda", "sigma", "kappa", "tested_max"))
    if lambda_ is None or not last or last <= 1:
        return []
    curve = []
    for step in range(FIT_POINTS + 1):
        n = last ** (step / FIT_POINTS)
        y = lambda_ * n / (1 + (sigma or 0) * (n - 1) + (kappa or 0) * n * (n - 1))
        capped = scaling.get("model") == "capped" and scaling.get("ceiling") is not None
        curve.append({"x": n, "y": min(y, scaling["ceiling"]) if capped else y})
    return curve
