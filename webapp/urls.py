"""Where each address of the site leads."""

from __future__ import annotations

from django.urls import URLPattern, URLResolver, path

from campaigns.api.urls import api

urlpatterns: list[URLPattern | URLResolver] = [
    path("api/v1/", api.urls),
]
