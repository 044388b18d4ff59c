"""Long lists, a page at a time."""

from __future__ import annotations

from typing import Any

from django.core.paginator import Page, Paginator
from django.db.models import QuerySet
from django.http import HttpRequest

PAGE_SIZE = 50


def page_of(request: HttpRequest, rows: QuerySet[Any]) -> Page[Any]:
    """The page that `?page=` names; the nearest one when there is no such page."""
    return Paginator(rows, PAGE_SIZE).get_page(request.GET.get("page"))
