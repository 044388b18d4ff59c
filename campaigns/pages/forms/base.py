"""The common way from a form to a service: fill its input, call it, and show its complaints beside the fields."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, TypeVar

import msgspec
from django import forms
from django.core.exceptions import ValidationError

from campaigns.pages.forms.rows import Rows
from campaigns.services.errors import ServiceError
from campaigns.services.inputs import decode

R = TypeVar("R")
_PLACE = re.compile(r"(?P<field>\w+)\[(?P<row>\d+)\]\.?(?P<part>.*)")


class InputForm(forms.Form):
    """`struct` is the service's input; `aliases` maps its field names to this form's where they differ."""

    struct: ClassVar[type[msgspec.Struct]]
    aliases: ClassVar[Mapping[str, str]] = {}
    required_css_class = "is-required"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # Tables of inputs that a person can lengthen, by the struct's field name.
        self.rows: dict[str, Rows] = {}

    def payload(self) -> dict[str, Any]:
        """What was typed, in the struct's field names. Raises ValidationError."""
        raise NotImplementedError

    def read(self) -> Any:
        """The struct, or None when what was typed is no such thing; the form then says what is wrong."""
        if not self.is_valid():
            return None
        try:
            return decode(self.struct, self.payload())
        except ServiceError as error:
            self.show(error)
        except ValidationError as error:
            self.add_error(None, error)
        return None

    def submit(self, action: Callable[[Any], R]) -> R | None:
        """What `action` made of the input, or None; the form then says what is wrong."""
        data = self.read()
        if data is None or self.errors:
            return None
        try:
            return action(data)
        except ServiceError as error:
            self.show(error)
        return None

    def show(self, error: ServiceError) -> None:
        for name, messages in error.fields.items():
            for message in messages:
                self._show_one(name, message)
        if not error.fields:
            self.add_error(None, error.message)

    def _show_one(self, name: str, message: str) -> None:
        place = _PLACE.fullmatch(name)
        if place and place["field"] in self.rows:
            self.rows[place["field"]].complain(int(place["row"]), f"{place['part']} {message}".strip())
            self.add_error(None, f"{place['field']}, row {int(place['row']) + 1}: {place['part']} {message}")
            return
        field = self.aliases.get(name, name.partition("[")[0])
        if field in self.rows:
            self.rows[field].errors.append(message)
        if field in self.fields:
            self.add_error(field, message[:1].upper() + message[1:])
        else:
            self.add_error(None, f"{name} {message}")
