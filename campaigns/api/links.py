"""Finds the row that an address names, and says where a new one is."""

from __future__ import annotations

from typing import Any, TypeVar

from django.db import models
from django.http import HttpResponse
from django.urls import reverse
from ninja import Status

from campaigns.api.errors import NotFound

M = TypeVar("M", bound=models.Model)

NAMESPACE = "api"


def one(rows: models.QuerySet[M], pk: int) -> M:
    """Raises NotFound."""
    row = rows.filter(pk=pk).first()
    if row is None:
        raise NotFound(f"There is no {rows.model._meta.verbose_name} with the id {pk}")
    return row


def created(response: HttpResponse, operation: str, described: dict[str, Any], status: int = 201) -> Status[Any]:
    """`described`, with its address (that of the GET `operation`) in the response's Location."""
    response["Location"] = reverse(f"{NAMESPACE}:{operation}", args=[described["id"]])
    return Status(status, described)
