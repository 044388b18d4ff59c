"""Where each address of the site leads."""

from __future__ import annotations

from django.urls import URLPattern, URLResolver, include, path

from campaigns.api.urls import api
from webapp.health import healthz

urlpatterns: list[URLPattern | URLResolver] = [
    path("healthz", healthz, name="healthz"),
    path("api/v1/", api.urls),
    path("", include("campaigns.pages.urls")),
]
