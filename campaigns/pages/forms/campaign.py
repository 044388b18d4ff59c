"""The launch form: a campaign with the defaults of the load line, and the run that starts it."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

import msgspec
from django import forms
from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.http import QueryDict
from django.utils.translation import gettext_lazy as _

from campaigns.models import Mix, Target
from campaigns.models.plan import DEFAULT_CRITERIA, DEFAULT_STAGES
from campaigns.pages.forms.base import InputForm
from campaigns.pages.forms.rows import posted_rows, shown_rows
from campaigns.pages.forms.text_values import json_object, number, numbers, pairs, plain, words
from campaigns.pages.metrics import metric_name
from campaigns.services.inputs import CampaignInput, LaunchInput
from campaigns.services.launch import key_of
from campaigns.services.mixes import PRESETS
from campaigns.services.plans import LATENCIES, STATS

CRITERION_COLUMNS = ("metric", "stat", "kind", "limit")
LIMIT_KINDS = {"degradation": _("% over the baseline"), "value": _("ms at most")}
LIMIT_FIELDS = {"degradation": "max_degradation_pct", "value": "max_value"}
NEW_CRITERION = {"metric": "ttft_ms", "stat": "p99", "kind": "value", "limit": ""}
PRESET = "preset-"


def _seconds(label: Any, initial: float | None, help_text: Any = "", **more: Any) -> forms.FloatField:
    return forms.FloatField(
        label=label,
        initial=initial,
        help_text=help_text,
        widget=forms.NumberInput(attrs={"step": "any", "min": "0", "inputmode": "decimal"}),
        **more,
    )


class LaunchForm(forms.Form):
    """What one run is told beside its campaign. `token` makes a launch that is sent twice one run; sent again with
    anything changed it is another launch."""

    token = forms.CharField(widget=forms.HiddenInput, required=False)
    label = forms.CharField(
        label=_("Label"), required=False, max_length=120, help_text=_("Tells this run from others, such as “fp8, TP2”.")
    )
    notes = forms.CharField(label=_("Notes"), required=False, widget=forms.Textarea(attrs={"rows": 3}))
    deployment = forms.CharField(
        label=_("Deployment"),
        required=False,
        help_text=_("What is under test, one name = value a line: image, flags, commit, driver."),
        widget=forms.Textarea(
            attrs={"rows": 4, "spellcheck": "false", "placeholder": "image = vllm/vllm-openai:v0.10"}
        ),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["token"].initial = uuid.uuid4().hex

    def clean_deployment(self) -> str:
        text: str = self.cleaned_data["deployment"]
        self.cleaned_data["deployment_facts"] = pairs(text, "=")
        return text

    def launch_input(self) -> LaunchInput:
        """Of a valid form."""
        values = self.cleaned_data
        data = LaunchInput(
            label=values["label"],
            notes=values["notes"].replace("\r\n", "\n"),
            deployment=values["deployment_facts"],
        )
        return msgspec.structs.replace(data, idempotency_key=key_of(values["token"], data))


class CampaignForm(InputForm, LaunchForm):
    struct = CampaignInput
    aliases = {
        "refine.budget_s": "refine_budget_s",
        "refine.enabled": "refine_enabled",
        "abort.error_pct": "abort_error_pct",
        "abort.after_s": "abort_after_s",
        "idempotency_key": "token",
    }

    name = forms.CharField(
        label=_("Campaign name"), required=False, max_length=120, help_text=_("Empty: the target and the mix.")
    )
    target = forms.ChoiceField(label=_("Target"))
    mix = forms.ChoiceField(label=_("Traffic mix"))
    stages = forms.CharField(
        label=_("Concurrency ladder"),
        initial=", ".join(map(str, DEFAULT_STAGES)),
        help_text=_("Users at once, a stage each, rising. The first stage, 1 user, is the baseline."),
        widget=forms.TextInput(attrs={"inputmode": "numeric", "autocomplete": "off"}),
    )
    stage_s = _seconds(_("Stage"), 300, _("Measured time a stage."))
    warmup_s = _seconds(_("Warm-up"), 30, _("Before each stage, not counted."))
    drain_s = _seconds(_("Drain limit"), 120, _("How long the last requests of a stage may take to end."))
    baseline_s = _seconds(_("Baseline"), None, _("Empty: as long as a stage."), required=False)
    timeout_s = _seconds(_("Request timeout"), 600, _("A request that takes longer has failed."))
    refine_enabled = forms.BooleanField(
        label=_("Refine between the last stage that passes and the first that fails"), required=False, initial=True
    )
    refine_budget_s = _seconds(_("Refinement budget"), 1800, _("Time for stages in between."))
    repeats = forms.IntegerField(
        label=_("Repeats"),
        initial=1,
        help_text=_("Times that the ladder is climbed; more of them give a surer answer."),
    )
    abort_error_pct = forms.FloatField(
        label=_("Stop at failures of"),
        initial=50,
        help_text=_("Share of requests that fail."),
        widget=forms.NumberInput(attrs={"step": "any", "min": "0", "max": "100"}),
    )
    abort_after_s = _seconds(_("Held for"), 30, _("How long the share must stay above."))
    drivers = forms.CharField(
        label=_("Worker queue"),
        required=False,
        help_text=_("Whose workers drive the load; empty: the target's."),
        widget=forms.TextInput(attrs={"spellcheck": "false"}),
    )
    generation = forms.CharField(
        label=_("Request parameters"),
        required=False,
        help_text=_('JSON, sent with every request, such as {"temperature": 0}.'),
        widget=forms.Textarea(attrs={"rows": 2, "spellcheck": "false"}),
    )
    seed = forms.IntegerField(label=_("Seed"), initial=1, help_text=_("Of the sequence of request sizes."))

    def __init__(
        self,
        data: QueryDict | None = None,
        *,
        targets: QuerySet[Target],
        mixes: QuerySet[Mix],
        initial: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(data, initial=dict(initial or {}))
        self.target_names = {str(one.pk): one.name for one in targets}
        self.mix_names = {str(one.pk): one.name for one in mixes}
        self.presets = {f"{PRESET}{n}": one for n, one in enumerate(PRESETS)}
        self.fields["target"].choices = list(self.target_names.items())  # type: ignore[attr-defined]
        preset_names = [(key, f"{one.name} (preset)") for key, one in self.presets.items()]
        self.fields["mix"].choices = [*self.mix_names.items(), *preset_names]  # type: ignore[attr-defined]
        # A preset that became a mix is not offered again, but a form that is sent again may still say it.
        saved = set(self.mix_names.values())
        offered = [(key, name) for key, name in preset_names if self.presets[key].name not in saved]
        self.fields["mix"].widget.choices = [*self.mix_names.items(), *offered]
        self.rows["criteria"] = (
            posted_rows(data, "criterion", CRITERION_COLUMNS, NEW_CRITERION)
            if data is not None
            else shown_rows([_criterion_row(one.as_dict()) for one in DEFAULT_CRITERIA])
        )
        self.new_criterion = shown_rows([NEW_CRITERION]).rows[0]
        self.metric_names = [(name, metric_name(name)) for name in LATENCIES]
        self.stats = [(stat, stat) for stat in STATS]
        self.limit_kinds = list(LIMIT_KINDS.items())

    @property
    def preset(self) -> Any:
        """The preset that was chosen as mix (a `MixInput`), or None."""
        return self.presets.get(self.cleaned_data["mix"])

    def payload(self) -> dict[str, Any]:
        values = self.cleaned_data
        preset = self.preset
        mix_name = preset.name if preset else self.mix_names[values["mix"]]
        same = ("stage_s", "warmup_s", "drain_s", "baseline_s", "timeout_s", "repeats", "seed")
        return {
            "name": values["name"] or f"{self.target_names[values['target']][:57]}, {mix_name[:57]}",
            "target": int(values["target"]),
            # A preset becomes a mix only when the run is launched.
            "mix": 0 if preset else int(values["mix"]),
            "stages": self._parsed("stages", lambda text: numbers(text, "a stage")),
            **{name: values[name] for name in same},
            "criteria": self._criteria(),
            "refine": {"enabled": values["refine_enabled"], "budget_s": values["refine_budget_s"]},
            "abort": {"error_pct": values["abort_error_pct"], "after_s": values["abort_after_s"]},
            "drivers": words(values["drivers"]),
            "generation": self._parsed("generation", json_object),
        }

    def _parsed(self, field: str, parse: Any) -> Any:
        try:
            return parse(self.cleaned_data[field])
        except ValidationError as error:
            raise ValidationError({field: error.messages}) from None

    def _criteria(self) -> list[dict[str, Any]]:
        criteria = []
        for row in self.rows["criteria"]:
            values = row.values
            key = LIMIT_FIELDS.get(values["kind"])
            try:
                if key is None:
                    raise ValidationError(_("the kind of limit must be one of those that are offered"))
                limit = float(number(values["limit"], "the limit"))
            except ValidationError as error:
                row.errors.extend(error.messages)
                raise ValidationError(_("Some criteria are not complete; see their rows.")) from None
            criteria.append({"metric": values["metric"], "stat": values["stat"], key: limit})
        return criteria


def _criterion_row(one: Mapping[str, Any]) -> dict[str, str]:
    relative = one.get("max_degradation_pct") is not None
    return {
        "metric": one["metric"],
        "stat": one["stat"],
        "kind": "degradation" if relative else "value",
        "limit": plain(one["max_degradation_pct"] if relative else one["max_value"]),
    }
