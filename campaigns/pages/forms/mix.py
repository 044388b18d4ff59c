"""The form of a traffic mix: a row a class, with weight, input and output lengths."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.http import QueryDict
from django.utils.translation import gettext_lazy as _

from campaigns.pages.forms.base import InputForm
from campaigns.pages.forms.rows import posted_rows, shown_rows
from campaigns.pages.forms.text_values import number, plain
from campaigns.pages.forms.token_sizes import KINDS, columns, row_of, size_of
from campaigns.services.inputs import MixInput

COLUMNS = ("name", "weight", *columns("input"), *columns("output"))
NEW_CLASS = {
    **dict.fromkeys(COLUMNS, ""),
    "weight": "1",
    "input_kind": "fixed",
    "output_kind": "fixed",
}
KIND_NAMES = {
    "fixed": _("fixed"),
    "uniform": _("uniform"),
    "normal": _("normal"),
    "lognormal": _("lognormal"),
    "empirical": _("list of values"),
}


class MixForm(InputForm):
    struct = MixInput

    name = forms.CharField(label=_("Name"), help_text=_("What this traffic is, such as “Chat, short answers”."))
    shared_prefix_tokens = forms.IntegerField(
        label=_("Shared prefix"),
        required=False,
        initial=0,
        help_text=_(
            "Tokens that every prompt begins with, to use a prefix cache on purpose. 0: every prompt is unique."
        ),
    )

    def __init__(self, data: QueryDict | None = None, *, shown: Mapping[str, Any] | None = None) -> None:
        """`shown`: an existing mix or a preset, in the fields of `MixInput`."""
        initial = {name: shown[name] for name in ("name", "shared_prefix_tokens")} if shown else None
        super().__init__(data, initial=initial)
        self.new_class = shown_rows([NEW_CLASS]).rows[0]
        self.kinds = [(kind, KIND_NAMES[kind]) for kind in KINDS]
        if data is not None:
            self.rows["classes"] = posted_rows(data, "class", COLUMNS, NEW_CLASS)
        elif shown:
            self.rows["classes"] = shown_rows([_row(one) for one in shown["classes"]])
        else:
            self.rows["classes"] = shown_rows([NEW_CLASS])

    def payload(self) -> dict[str, Any]:
        return {
            "name": self.cleaned_data["name"],
            "shared_prefix_tokens": self.cleaned_data["shared_prefix_tokens"] or 0,
            "classes": self.classes(),
        }

    def classes(self) -> list[dict[str, Any]]:
        """Raises ValidationError; each row then says what is wrong with it."""
        classes = []
        for row in self.rows["classes"]:
            try:
                classes.append(_class(row.values))
            except ValidationError as error:
                row.errors.extend(error.messages)
        if any(row.errors for row in self.rows["classes"]):
            raise ValidationError(_("Some classes are not complete; see their rows."))
        return classes


def is_shown_whole(classes: list[dict[str, Any]]) -> bool:
    """Whether the form has a field for all that these classes say (conversations come through the API)."""
    return all(set(one) <= {"name", "weight", "input_tokens", "output_tokens"} for one in classes)


def _class(row: Mapping[str, str]) -> dict[str, Any]:
    return {
        "name": row["name"].strip(),
        "weight": number(row["weight"], "weight"),
        "input_tokens": size_of(row, "input"),
        "output_tokens": size_of(row, "output"),
    }


def _row(one: Mapping[str, Any]) -> dict[str, str]:
    return {
        "name": one["name"],
        "weight": plain(one["weight"]),
        **row_of(one.get("input_tokens", 0), "input"),
        **row_of(one.get("output_tokens", 0), "output"),
    }
