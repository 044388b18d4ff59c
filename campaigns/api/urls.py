"""The HTTP API, /api/v1/: which calls there are. The OpenAPI document and its page are made from them."""

from __future__ import annotations

from typing import Any

from django.urls import URLPattern, URLResolver, path, re_path
from ninja import NinjaAPI
from ninja.openapi.schema import OpenAPISchema

from campaigns.api import bodies, campaigns, errors, mixes, runs, targets
from campaigns.api.auth import require
from campaigns.api.links import NAMESPACE
from campaigns.models import Scope
from campaigns.services.inputs import CampaignInput, LaunchInput, MixInput, TargetInput
from campaigns.services.mixes import CLASS, REFUSED_IN_A_CLASS
from webapp.version import __version__

DESCRIPTION = """Managed benchmark campaigns of LLM services: a target, a mix of traffic and a plan of stages make a
campaign; each launch of it is a run, whose results name the load line, the highest concurrency at which the service
still keeps its latency.

- `Authorization: Bearer TOKEN`; `python manage.py token USER --scope read|launch|admin` makes a token.
- Every error has one form: `{"error": {"code", "message", "fields"}}`.
- Lists take `limit` and `cursor` and answer `{"items", "next"}`.
- No data is `null`, never 0. Units are in the names. Times are ISO 8601 in UTC."""

_CHANGEABLE = (TargetInput, MixInput, CampaignInput)
INPUTS = bodies.components(*_CHANGEABLE, LaunchInput, CLASS, changeable=_CHANGEABLE)
bodies.leave_out(INPUTS, CLASS, REFUSED_IN_A_CLASS)


class Api(NinjaAPI):
    """django-ninja's, whose OpenAPI document also holds the input types of the services, and which has an answer for
    every address."""

    @property
    def urls(self) -> tuple[list[URLPattern | URLResolver], str, str]:
        patterns, app_name, namespace = super().urls
        return [path("", errors.unknown), *patterns, re_path("", errors.unknown)], app_name, namespace

    def get_openapi_operation_id(self, operation: Any) -> str:
        return str(operation.view_func.__name__)

    def get_openapi_schema(self, **options: Any) -> OpenAPISchema:
        document = super().get_openapi_schema(**options)
        document["components"]["schemas"] |= INPUTS
        return document


api = Api(
    title="Brimline",
    version=__version__,
    description=DESCRIPTION,
    urls_namespace=NAMESPACE,
    auth=require(Scope.READ),
)
api.add_router("/targets", targets.router)
api.add_router("/mixes", mixes.router)
api.add_router("/campaigns", campaigns.router)
api.add_router("/runs", runs.router)
errors.install(api)
