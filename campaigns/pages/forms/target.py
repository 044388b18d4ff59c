"""The form of a target. Secrets go in and never come back: an empty field keeps what is stored, a tick clears it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.http import QueryDict
from django.utils.translation import gettext_lazy as _

from campaigns.models import Protocol
from campaigns.pages.forms.base import InputForm
from campaigns.pages.forms.rows import posted_rows, shown_rows
from campaigns.pages.forms.text_values import pairs, words
from campaigns.services.inputs import TargetInput
from campaigns.services.targets import METRICS_KINDS

METRIC_COLUMNS = ("kind", "url", "queue")
NEW_METRIC = {"kind": "engine"}
METRIC_NAMES = {
    "engine": _("Engine metrics page"),
    "dcgm": _("DCGM exporter page"),
    "node": _("Node exporter page"),
    "nvml": _("NVML on a worker host"),
    "host": _("CPU and memory of a worker host"),
}


class TargetForm(InputForm):
    struct = TargetInput

    name = forms.CharField(label=_("Name"), help_text=_("What your team calls this deployment."))
    base_url = forms.CharField(
        label=_("Base URL"),
        help_text=_("Where the OpenAI-compatible API is, such as http://gpu-1:8000/v1."),
        widget=forms.TextInput(attrs={"inputmode": "url", "spellcheck": "false", "autocomplete": "off"}),
    )
    model = forms.CharField(
        label=_("Model"),
        help_text=_("The id that the server lists under /v1/models."),
        widget=forms.TextInput(attrs={"spellcheck": "false", "autocomplete": "off"}),
    )
    protocol = forms.ChoiceField(label=_("Protocol"), choices=Protocol.choices, initial=Protocol.CHAT)
    api_key = forms.CharField(
        label=_("API key"),
        required=False,
        strip=True,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password", "spellcheck": "false"}),
    )
    clear_api_key = forms.BooleanField(label=_("Clear the stored key"), required=False)
    headers = forms.CharField(
        label=_("Extra headers"),
        required=False,
        help_text=_("One Name: value a line. Stored encrypted, never shown again."),
        widget=forms.Textarea(attrs={"rows": 3, "spellcheck": "false", "autocomplete": "off"}),
    )
    clear_headers = forms.BooleanField(label=_("Clear the stored headers"), required=False)
    verify_tls = forms.BooleanField(label=_("Verify the TLS certificate"), required=False, initial=True)
    gpu_count = forms.IntegerField(label=_("GPUs"), required=False, help_text=_("Gives throughput per GPU."))
    gpu_model = forms.CharField(label=_("GPU model"), required=False)
    queue = forms.CharField(
        label=_("Worker queue"),
        required=False,
        help_text=_("The workers that drive the load; empty: the default ones."),
        widget=forms.TextInput(attrs={"spellcheck": "false"}),
    )
    tags = forms.CharField(label=_("Tags"), required=False, help_text=_("With commas between."))

    def __init__(self, data: QueryDict | None = None, *, described: Mapping[str, Any] | None = None) -> None:
        """`described`: an existing target as `describe_target` gives it."""
        self.described = described or {}
        super().__init__(data, initial=_initial(described) if described else None)
        self.rows["metrics"] = (
            posted_rows(data, "metrics", METRIC_COLUMNS, NEW_METRIC)
            if data is not None
            else shown_rows(self.described.get("metrics", []))
        )
        self.metric_kinds = [(kind, METRIC_NAMES[kind]) for kind in METRICS_KINDS]
        self.new_metric = shown_rows([NEW_METRIC]).rows[0]

    def clean(self) -> dict[str, Any]:
        values: dict[str, Any] = super().clean() or {}
        if values.get("api_key") and values.get("clear_api_key"):
            self.add_error("api_key", _("Either type a new key or clear the stored one"))
        if values.get("headers") and values.get("clear_headers"):
            self.add_error("headers", _("Either type new headers or clear the stored ones"))
        try:
            values["header_pairs"] = pairs(values.get("headers", ""), ":")
        except ValidationError as error:
            self.add_error("headers", error)
        return values

    def payload(self) -> dict[str, Any]:
        values = self.cleaned_data
        payload = {
            name: values[name]
            for name in ("name", "base_url", "model", "protocol", "verify_tls", "gpu_count", "gpu_model", "queue")
        }
        payload["tags"] = words(values["tags"])
        payload["metrics"] = [{key: row.values[key].strip() for key in METRIC_COLUMNS} for row in self.rows["metrics"]]
        if values["api_key"] or values["clear_api_key"]:
            payload["api_key"] = values["api_key"]
        if values["header_pairs"] or values["clear_headers"]:
            payload["headers"] = values["header_pairs"]
        return payload


def _initial(described: Mapping[str, Any]) -> dict[str, Any]:
    shown = ("name", "base_url", "model", "protocol", "verify_tls", "gpu_count", "gpu_model", "queue")
    return {**{name: described[name] for name in shown}, "tags": ", ".join(described["tags"])}
