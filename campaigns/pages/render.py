"""Renders a page with what every page knows: who is there and what this person may do."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from campaigns.pages.access import permissions


def page(request: HttpRequest, template: str, status: int = 200, **context: Any) -> HttpResponse:
    return render(request, template, {**permissions(request.user), **context}, status=status)
