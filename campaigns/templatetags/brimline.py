"""How values are written on pages: numbers with their precision, times for the reader's zone, states with a shape."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django import template
from django.http import HttpRequest
from django.utils.dateparse import parse_datetime
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _

from campaigns.models import Run, RunState
from campaigns.models.plan import CriterionPlan
from campaigns.pages.forms.token_sizes import PARAMETERS
from campaigns.pages.metrics import metric_name
from campaigns.pages.numbers import duration_words, significant
from campaigns.pages.results import MetricColumn, change_of

register = template.Library()

NO_DATA = "—"
STATE_SHAPES = {
    RunState.QUEUED: "○",
    RunState.RUNNING: "▶",
    RunState.ANALYSING: "◔",
    RunState.DONE: "✓",
    RunState.CANCELLED: "■",
    RunState.ABORTED: "▲",
    RunState.FAILED: "✕",
    RunState.INTERRUPTED: "‖",
}


def _known(value: float | str | None) -> float | None:
    """A template hands "" to a filter for what is not there at all, such as a part of a summary without data."""
    return None if value is None or isinstance(value, str) else value


@register.filter
def num(value: float | str | None) -> str:
    """A number with three significant digits; no data is a dash, never 0."""
    return NO_DATA if (known := _known(value)) is None else significant(known)


@register.filter
def pct(value: float | str | None) -> str:
    return NO_DATA if (known := _known(value)) is None else f"{significant(known)}%"


@register.filter
def share(value: float | str | None) -> str:
    """A share from 0 to 1, in percent."""
    return NO_DATA if (known := _known(value)) is None else f"{significant(100 * known)}%"


@register.filter
def signed_pct(value: float | str | None) -> str:
    if (known := _known(value)) is None:
        return NO_DATA
    return f"{'+' if known > 0 else '−' if known < 0 else ''}{significant(abs(known))}%"


@register.filter
def duration(seconds: float | str | None) -> str:
    return NO_DATA if (known := _known(seconds)) is None else duration_words(known)


@register.filter
def at(mapping: Mapping[str, Any] | None, key: str) -> Any:
    """`mapping[key]`, None when it is not there."""
    return mapping.get(key) if mapping else None


@register.simple_tag
def moment(when: datetime | str | None, seconds: bool = False) -> str | SafeString:
    """A time element: UTC until time.js writes it in the reader's zone; UTC stays in its title. `seconds`: for what
    follows each other closely."""
    if isinstance(when, str):
        when = parse_datetime(when)
    if when is None:
        return NO_DATA
    utc = when.strftime("%Y-%m-%d %H:%M:%S UTC")
    return format_html(
        '<time datetime="{}" title="{}"{}>{}</time>',
        when.isoformat(),
        utc,
        mark_safe(" data-seconds") if seconds else "",
        when.strftime("%Y-%m-%d %H:%M:%S" if seconds else "%Y-%m-%d %H:%M"),
    )


@register.simple_tag
def state_badge(run: Run) -> SafeString:
    return format_html(
        '<span class="state state--{}"><span class="state__shape" aria-hidden="true">{}</span>{}</span>',
        run.state,
        STATE_SHAPES[RunState(run.state)],
        run.get_state_display(),
    )


@register.simple_tag
def nav_current(request: HttpRequest, *families: str) -> SafeString:
    """`aria-current` for the navigation entry under which the present page is."""
    match = request.resolver_match
    name = (match.url_name if match else "") or ""
    return mark_safe(' aria-current="page"' if name.split("-")[0] in families else "")


@register.filter
def size_kind(row: Mapping[str, str], side: str) -> str:
    return row.get(f"{side}_kind", "")


@register.filter
def size_parameters(row: Mapping[str, str], side: str) -> list[dict[str, str]]:
    """The inputs of a length: all kinds' parameters; the style sheet shows those of the chosen kind."""
    labels = {"tokens": _("tokens"), "values": _("values"), "sd": _("std. dev."), "sigma": _("sigma")}
    return [
        {"name": name, "label": str(labels.get(name, name)), "value": row.get(f"{side}_{name}", "")}
        for name in PARAMETERS
    ]


@register.filter
def criterion(one: CriterionPlan) -> str:
    """ "TTFT p50 at most 50% over the baseline"."""
    if one.max_degradation_pct is not None:
        limit = f"{significant(one.max_degradation_pct)}% over the baseline"
    else:
        limit = f"{significant(one.max_value or 0)} ms"
    return f"{metric_name(one.metric)} {one.stat} at most {limit}"


@register.filter
def as_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


@register.filter
def as_indented_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2)


@register.filter
def is_text(value: Any) -> bool:
    return isinstance(value, str)


@register.filter
def split_words(text: str) -> list[str]:
    return text.split()


@register.simple_tag
def stage_mark(mark: str) -> SafeString:
    """A stage's verdict: a shape and a word."""
    shape, name, kind = {
        "within": ("✓", _("within"), "ok"),
        "beyond": ("✕", _("beyond"), "fail"),
        "unsure": ("?", _("unsure"), "unsure"),
        "invalid": ("○", _("invalid"), "none"),
        "evidence": ("○", _("invalid, yet beyond"), "fail"),
    }.get(mark, ("–", _("not judged"), "none"))
    return format_html(
        '<span class="verdict verdict--{}"><span aria-hidden="true">{}</span> {}</span>', kind, shape, name
    )


@register.filter
def exact(value: float | str | None) -> str:
    """For programs that read the page, such as the CSV button: the whole number; no data is empty."""
    return "" if (known := _known(value)) is None else repr(known)


@register.simple_tag
def change(stage: Mapping[str, Any], column: MetricColumn) -> str | SafeString:
    """How much worse than the baseline, with its interval; of the judged statistic."""
    found = change_of(stage, column.metric, column.judged)
    if found is None:
        return NO_DATA
    interval = f"{signed_pct(found['low'])} … {signed_pct(found['high'])}"
    return format_html('{} <span class="interval">{}</span>', signed_pct(found["pct"]), interval)


@register.simple_tag
def exact_change(stage: Mapping[str, Any], column: MetricColumn) -> str:
    found = change_of(stage, column.metric, column.judged)
    return exact(found["pct"]) if found else ""
