"""How metrics are called on pages."""

from __future__ import annotations

from django.utils.translation import gettext_lazy as _

METRIC_NAMES = {
    "ttft_ms": "TTFT",
    "tpot_ms": "TPOT",
    "itl_ms": "ITL",
    "e2e_ms": "E2E",
    "failure_pct": _("failure share"),
}


def metric_name(metric: str) -> str:
    return str(METRIC_NAMES.get(metric, metric))
