"""Lists by a keyset cursor: rows that are added or removed while a program pages through move nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from django.db import models
from ninja import Schema
from pydantic import Field, ValidationInfo, model_validator

from campaigns.services.errors import InvalidInput

M = TypeVar("M", bound=models.Model)

LIMIT_MAX = 200
ID_MAX = 2**63 - 1


class QueryParameters(Schema):
    """Parameters of the address; one that is not known is an error, since a misspelt filter would list everything."""

    @model_validator(mode="before")
    @classmethod
    def _known_only(cls, values: Any, info: ValidationInfo) -> Any:
        given = info.context["request"].GET if info.context else {}
        unknown = [name for name in given if name not in cls.model_fields]
        if unknown:
            message = f"is not known here; known parameters are {', '.join(cls.model_fields)}"
            words = "; ".join(f"{name} {message}" for name in unknown)
            raise InvalidInput(words, {name: [message] for name in unknown})
        return values


class Window(QueryParameters):
    limit: int = Field(50, ge=1, le=LIMIT_MAX, description="How many items at most.")
    cursor: int | None = Field(None, ge=1, le=ID_MAX, description="`next` of the page before; absent for the first.")


def page(rows: models.QuerySet[M], window: Window, describe: Callable[[M], Any]) -> dict[str, Any]:
    """The newest rows first: `{"items", "next"}`, where `next` is null on the last page."""
    if window.cursor is not None:
        rows = rows.filter(pk__lt=window.cursor)
    found = list(rows.order_by("-pk")[: window.limit + 1])
    shown = found[: window.limit]
    return {
        "items": [describe(row) for row in shown],
        "next": shown[-1].pk if len(found) > window.limit else None,
    }
