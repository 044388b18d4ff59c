"""`GET /healthz`: whether a campaign could be run now, and what is missing. Open to anyone; it tells no addresses."""

from __future__ import annotations

import redis
from django.conf import settings
from django.db import Error as DatabaseError
from django.db import connection
from django.http import HttpRequest, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from campaigns.models import WorkerHost

BROKER_LIMIT_S = 2


@require_safe
@never_cache
def healthz(request: HttpRequest) -> JsonResponse:
    """200 when all parts are well, else 503; {part: {ok, detail}} either way."""
    parts = {"database": _database(), "broker": _broker()}
    parts["worker"] = _worker() if parts["database"] is None else "unknown without the database"
    body = {part: {"ok": problem is None, "detail": problem or "ok"} for part, problem in parts.items()}
    return JsonResponse(body, status=200 if all(problem is None for problem in parts.values()) else 503)


def _database() -> str | None:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except DatabaseError:
        return "does not answer"
    return None


def _broker() -> str | None:
    client = redis.Redis.from_url(
        settings.REDIS_URL, socket_timeout=BROKER_LIMIT_S, socket_connect_timeout=BROKER_LIMIT_S
    )
    try:
        client.ping()
    except redis.RedisError:
        return "does not answer"
    finally:
        client.close()
    return None


def _worker() -> str | None:
    if WorkerHost.objects.live().exists():
        return None
    newest = WorkerHost.objects.order_by("-heartbeat_at").values_list("heartbeat_at", flat=True).first()
    if newest is None:
        return "no worker has ever spoken up"
    return f"no worker has spoken up since {newest.isoformat(timespec='seconds')}"
