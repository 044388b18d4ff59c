"""Reads a request's body into the input type of a service, and says in OpenAPI what that body is."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, TypeVar

import msgspec
from django.http import HttpRequest
from msgspec import Struct

from campaigns.api.errors import Malformed, UnsupportedType
from campaigns.services.inputs import decode

T = TypeVar("T", bound=Struct)


def read(request: HttpRequest, kind: type[T]) -> T:
    """The body as a `kind`. Raises UnsupportedType, Malformed, and InvalidInput that names every wrong field."""
    return decode(kind, _json_object(request))


def read_optional(request: HttpRequest, kind: type[T]) -> T:
    """As `read`; no body at all stands for `{}`."""
    return read(request, kind) if request.body else decode(kind, {})


def read_changes(request: HttpRequest, kind: type[T], described: Mapping[str, Any]) -> T:
    """The body over what is stored, as the API describes it: each field that is given replaces the stored one whole."""
    known = {field.encode_name for field in msgspec.structs.fields(kind)}
    stored = {name: value for name, value in described.items() if name in known}
    return decode(kind, {**stored, **_json_object(request)})


def _json_object(request: HttpRequest) -> dict[str, Any]:
    if not request.body:
        raise Malformed("The body is missing; send a JSON object")
    if request.content_type != "application/json":
        sent = request.content_type or "nothing"
        raise UnsupportedType(f"Send the body as JSON: the Content-Type must be application/json and is {sent}")
    try:
        data = msgspec.json.decode(request.body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Malformed(f"The body is not JSON: {error}") from None
    if not isinstance(data, dict):
        raise Malformed("The body must be a JSON object")
    return data


def documented(kind: type[Struct], example: Any, *, required: bool = True, changes: bool = False) -> dict[str, Any]:
    """`openapi_extra` of an operation that reads a `kind`, or (`changes`) any of its fields."""
    schema = {"$ref": f"#/components/schemas/{changes_name(kind) if changes else kind.__name__}"}
    content = {"application/json": {"schema": schema, "examples": {"typical": {"value": example}}}}
    return {"requestBody": {"required": required, "content": content}}


def changes_name(kind: type[Struct]) -> str:
    return kind.__name__.removesuffix("Input") + "Changes"


def components(*kinds: type[Struct], changeable: tuple[type[Struct], ...]) -> dict[str, Any]:
    """The OpenAPI schemas of these inputs and what they hold; of `changeable` ones also with no field required."""
    _, schemas = msgspec.json.schema_components(kinds, ref_template="#/components/schemas/{name}")
    for kind in changeable:
        whole = schemas[kind.__name__]
        schemas[changes_name(kind)] = {
            **{key: value for key, value in whole.items() if key != "required"},
            "properties": {name: _without_default(field) for name, field in whole["properties"].items()},
            "title": changes_name(kind),
            "description": "Each field that is given replaces the stored one whole; the others stay.",
        }
    return schemas


def leave_out(schemas: dict[str, Any], kind: type[Struct], names: Collection[str]) -> None:
    """Take fields that are refused out of the schema of `kind`, which then says that it knows no others."""
    schema = schemas[kind.__name__]
    schema["properties"] = {name: field for name, field in schema["properties"].items() if name not in names}
    schema["additionalProperties"] = False


def _without_default(field: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in field.items() if key != "default"}
