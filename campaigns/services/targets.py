"""Creates, changes and describes targets. Secrets go in and are never given out again."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import msgspec
from django.contrib.auth.models import AbstractBaseUser
from django.db import transaction
from django.utils import timezone
from msgspec import UNSET

from campaigns.models import ACTIVE_STATES, Protocol, RunState, Target
from campaigns.models.secret import Secret
from campaigns.services.checks import Problems, has_controls
from campaigns.services.errors import Conflict, InvalidInput
from campaigns.services.inputs import MetricsInput, TargetInput, decode
from campaigns.services.names import save_named
from workers.loadgen.endpoint import AddressError, api_root, without_query

URL_MAX = 500
MODEL_MAX = 300
KEY_MAX = 8000
GPUS_MAX = 100_000
METRICS_KINDS = ("engine", "dcgm", "node", "nvml", "host")
SCRAPED_KINDS = ("engine", "dcgm", "node")
# RFC 9110, 5.6.2: a header's name is a token. Values: printable ASCII and tabs, so every client sends the same bytes.
HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,200}")
HEADER_VALUE = re.compile(r"[\t\x20-\x7e]{0,8000}")
OWN_HEADERS = frozenset(
    {
        "accept",
        "accept-encoding",
        "connection",
        "content-length",
        "content-type",
        "expect",
        "host",
        "transfer-encoding",
        "x-request-id",
    }
)


@transaction.atomic
def create_target(user: AbstractBaseUser, data: TargetInput) -> Target:
    """Raises InvalidInput."""
    return _write(Target(created_by_id=user.pk, api_key=Secret(""), headers=Secret("")), data)


@transaction.atomic
def update_target(target: Target, data: TargetInput) -> Target:
    """Raises InvalidInput; Conflict when the target is archived, or when the address would change under a run."""
    target = Target.objects.select_for_update().get(pk=target.pk)
    if target.archived_at is not None:
        raise Conflict(f"The target {target.name} is archived and cannot be changed; create a new one")
    before = target.base_url
    target = _write(target, data)
    if target.base_url != before:
        _refuse_while_used(target, "its address cannot be changed")
    return target


@transaction.atomic
def archive_target(target: Target) -> None:
    """Take a target out of use; its runs stay. Raises Conflict while a run is queued or active on it."""
    target = Target.objects.select_for_update().get(pk=target.pk)
    _refuse_while_used(target, "it cannot be archived")
    Target.objects.current().filter(pk=target.pk).update(archived_at=timezone.now())


@transaction.atomic
def unarchive_target(target: Target) -> None:
    """Put a target back into use. Harmless when it is in use. Raises InvalidInput when its name was taken meanwhile."""
    target = Target.objects.select_for_update().get(pk=target.pk)
    target.archived_at = None
    save_named(target, "target_name_unique")


def headers_of(target: Target) -> dict[str, str]:
    """The extra headers with their values, which may be secrets: only for whoever sends them."""
    return dict(json.loads(target.headers.reveal() or "{}"))


def describe_target(target: Target) -> dict[str, Any]:
    """The target as the API shows it: that there are secrets, never the secrets."""
    return {
        "id": target.pk,
        "name": target.name,
        "base_url": target.base_url,
        "model": target.model,
        "protocol": target.protocol,
        "has_api_key": bool(target.api_key),
        "header_names": sorted(headers_of(target)),
        "verify_tls": target.verify_tls,
        "gpu_count": target.gpu_count,
        "gpu_model": target.gpu_model,
        "queue": target.queue,
        "metrics": target.metrics,
        "tags": target.tags,
        "preflight": target.preflight,
        "created_by": target.created_by.get_username() if target.created_by else None,
        "created_at": target.created_at.isoformat(),
        "updated_at": target.updated_at.isoformat(),
        "archived_at": target.archived_at.isoformat() if target.archived_at else None,
    }


def _refuse_while_used(target: Target, what: str) -> None:
    run = target.runs.filter(state__in=[RunState.QUEUED, *ACTIVE_STATES]).first()
    if run is not None:
        state = run.get_state_display().lower()
        raise Conflict(f"Run {run.pk} on {target.name} is {state}, so {what}; cancel it first")


def _write(target: Target, data: TargetInput) -> Target:
    problems = Problems()
    before = target.base_url
    target.name = problems.text("name", data.name)
    target.base_url = _address(problems, "base_url", data.base_url)
    target.model = problems.text("model", data.model, MODEL_MAX)
    target.gpu_model = problems.text("gpu_model", data.gpu_model, blank=True)
    target.queue = problems.queue("queue", data.queue)
    target.verify_tls = data.verify_tls
    target.gpu_count = data.gpu_count
    if data.gpu_count is not None:
        problems.number("gpu_count", data.gpu_count, 1, GPUS_MAX)
    target.protocol = data.protocol
    if data.protocol not in Protocol.values:
        problems.add("protocol", f"must be one of {', '.join(Protocol.values)}")
    target.tags = [problems.text(f"tags[{place}]", tag, 60) for place, tag in enumerate(data.tags)]
    if len(data.tags) > 50:
        problems.add("tags", "must be at most 50")
    target.metrics = [_metrics(problems, place, source) for place, source in enumerate(data.metrics)]
    if before and _origin(before) != _origin(target.base_url):
        _ask_secrets_again(problems, target, data)
    _secrets(problems, target, data)
    problems.stop()
    save_named(target, "target_name_unique")
    return target


def _address(problems: Problems, field: str, text: str) -> str:
    address = problems.text(field, text, URL_MAX)
    try:
        api_root(address)
    except AddressError as error:
        problems.add(field, f"cannot be used: {error}")
        return address
    if without_query(address) != address:
        problems.add(
            field, "must not hold a query (?…), which may carry a key; give keys as the API key or in a header"
        )
    scheme, _, rest = address.partition(":")
    return f"{scheme.lower()}:{rest}"


def _check_page(problems: Problems, field: str, url: str) -> None:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        problems.add(field, f"is not an address: {error}")
        return
    if parts.scheme.lower() not in {"http", "https"} or not parts.hostname:
        problems.add(field, "must be an address that starts with http:// or https://, such as http://host:8000/metrics")
    if parts.username is not None or parts.password is not None:
        problems.add(field, "must not hold a user name or password")
    if has_controls(url) or " " in url:
        problems.add(field, "must not hold blanks or control characters")


def _origin(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.scheme, parts.netloc.lower()


def _ask_secrets_again(problems: Problems, target: Target, data: TargetInput) -> None:
    """Else anyone who may edit a target could have its key sent to a server of their own."""
    why = "must be entered again (or cleared), since the address changed: it was given for the old one only"
    if target.api_key and data.api_key is UNSET:
        problems.add("api_key", why)
    if target.headers and data.headers is UNSET:
        problems.add("headers", why)


def _secrets(problems: Problems, target: Target, data: TargetInput) -> None:
    if data.api_key is not UNSET:
        key = (data.api_key or "").strip()
        if len(key) > KEY_MAX or not HEADER_VALUE.fullmatch(key):
            problems.add("api_key", f"must be printable ASCII without line breaks, at most {KEY_MAX} characters")
        target.api_key = Secret(key)
    if data.headers is not UNSET:
        headers = {name.strip(): value.strip() for name, value in data.headers.items()}
        _check_headers(problems, headers)
        target.headers = Secret(json.dumps(headers) if headers else "")
    if target.api_key and "authorization" in {name.lower() for name in headers_of(target)}:
        problems.add("headers", "must not hold Authorization beside an api_key, which is sent in it; keep one")


def _check_headers(problems: Problems, headers: Mapping[str, str]) -> None:
    # A value is never repeated in a message: it may be a secret.
    if len({name.lower() for name in headers}) < len(headers):
        problems.add("headers", "must name each header once (upper and lower case are the same)")
    for name, value in headers.items():
        shown = name if HEADER_NAME.fullmatch(name) else repr(name[:40])
        if not HEADER_NAME.fullmatch(name):
            problems.add("headers", f"{shown} is not a header's name: use letters, digits and hyphens")
        elif name.lower() in OWN_HEADERS:
            problems.add("headers", f"{shown} is set by Brimline; remove it")
        if not HEADER_VALUE.fullmatch(value):
            problems.add("headers", f"the value of {shown} must be printable ASCII without line breaks")


def _metrics(problems: Problems, place: int, source: Mapping[str, Any]) -> dict[str, Any]:
    field = f"metrics[{place}]"
    try:
        given = decode(MetricsInput, source)
    except InvalidInput as error:
        for name, messages in error.fields.items():
            for message in messages:
                problems.add(f"{field}.{name}", message)
        return {}
    if given.kind not in METRICS_KINDS:
        problems.add(f"{field}.kind", f"must be one of {', '.join(METRICS_KINDS)}")
    given.url = given.url.strip()
    given.queue = problems.queue(f"{field}.queue", given.queue)
    if given.url and given.kind not in SCRAPED_KINDS:
        problems.add(f"{field}.url", f"must be empty: {given.kind} is read on the host of its queue")
    elif given.url:
        _check_page(problems, f"{field}.url", given.url)
    elif given.kind in {"dcgm", "node"}:
        problems.add(f"{field}.url", "is required: the address of the exporter's metrics page")
    return dict(msgspec.to_builtins(given))
