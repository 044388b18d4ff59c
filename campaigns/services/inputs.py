"""What people and programs send, as types with the API's field names, and how raw data becomes such a type.

Only shapes are decided here; what the values may be is decided by the service that takes them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import UNSET, Struct, UnsetType, field

from campaigns.models.plan import DEFAULT_CRITERIA, DEFAULT_STAGES, CriterionPlan
from campaigns.services.checks import Problems

T = TypeVar("T", bound=Struct)


class MetricsInput(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Where one kind of series comes from: a page to scrape, or a host (its queue) whose worker reads it."""

    kind: str
    url: str = ""
    queue: str = ""


class TargetInput(Struct, kw_only=True, forbid_unknown_fields=True):
    """`api_key` and `headers`: unset keeps what is stored, empty clears it."""

    name: str
    base_url: str
    model: str
    protocol: str = "openai-chat"
    api_key: str | UnsetType | None = UNSET
    headers: dict[str, str] | UnsetType = UNSET
    verify_tls: bool = True
    gpu_count: int | None = None
    gpu_model: str = ""
    queue: str = ""
    metrics: list[dict[str, Any]] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)


class MixInput(Struct, kw_only=True, forbid_unknown_fields=True):
    """`classes` as the load generator's plan has them."""

    name: str
    # The generator's own rules check them, all at once; here is only where their documentation is.
    classes: list[
        Annotated[dict[str, Any], msgspec.Meta(extra_json_schema={"$ref": "#/components/schemas/TrafficClass"})]
    ]
    shared_prefix_tokens: int = 0


class RefineInput(Struct, kw_only=True, forbid_unknown_fields=True):
    enabled: bool = True
    budget_s: float = 1800


class AbortInput(Struct, kw_only=True, forbid_unknown_fields=True):
    """Stop a run whose failure share stays above `error_pct` for `after_s`."""

    error_pct: float = 50
    after_s: float = 30


class CampaignInput(Struct, kw_only=True, forbid_unknown_fields=True):
    """`target` and `mix` are ids; `baseline_s` null means as long as a stage."""

    name: str
    target: int
    mix: int
    stages: list[int] = field(default_factory=lambda: list(DEFAULT_STAGES))
    stage_s: float = 300
    warmup_s: float = 30
    drain_s: float = 120
    baseline_s: float | None = None
    timeout_s: float = 600
    criteria: list[CriterionPlan] = field(default_factory=lambda: list(DEFAULT_CRITERIA))
    refine: RefineInput = field(default_factory=RefineInput)
    repeats: int = 1
    abort: AbortInput = field(default_factory=AbortInput)
    load: str = "closed"
    drivers: list[str] = field(default_factory=list)
    generation: dict[str, Any] = field(default_factory=dict)
    seed: int = 1


class LaunchInput(Struct, kw_only=True, forbid_unknown_fields=True):
    """`deployment`: free facts about what is under test (flags, image, commit, …)."""

    label: str = ""
    notes: str = ""
    deployment: dict[str, Any] = field(default_factory=dict)
    idempotency_key: str | None = None


def decode(kind: type[T], raw: bytes | str | Mapping[str, Any]) -> T:
    """`raw` (JSON text, or what it decodes to) as a `kind`.

    Raises InvalidInput that names every field that is unknown, missing or of the wrong type.
    """
    problems = Problems()
    data: Any = raw
    if isinstance(raw, bytes | str):
        try:
            data = msgspec.json.decode(raw or b"null")
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise problems.invalid(f"The body is not JSON: {error}") from None
    if not isinstance(data, Mapping):
        raise problems.invalid("The body must be a JSON object")
    fields = {one.encode_name: one for one in msgspec.structs.fields(kind)}
    for name in data:
        if name not in fields:
            problems.add(str(name), f"is not known here; known fields are {', '.join(fields)}")
    values: dict[str, Any] = {}
    for name, one in fields.items():
        if name not in data:
            if one.required:
                problems.add(name, "is required")
            continue
        try:
            values[one.name] = msgspec.convert(data[name], one.type)
        except msgspec.ValidationError as error:
            _add(problems, name, str(error))
    problems.stop()
    return kind(**values)


def _add(problems: Problems, name: str, text: str) -> None:
    """msgspec ends its message with the place, "… - at `$[0].metric`": the place becomes part of the field's name."""
    message, _, place = text.partition(" - at `$")
    problems.add(name + place.rstrip("`"), message[:1].lower() + message[1:])
