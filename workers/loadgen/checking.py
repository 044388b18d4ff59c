"""Builds typed structs from JSON documents and lists every problem with its path, instead of stopping at the first.

Knows nothing of plans: a struct's fields carry their own rule, and its wording, as `msgspec.Meta`.
"""

from __future__ import annotations

import difflib
import types
import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

S = TypeVar("S", bound=msgspec.Struct)


@dataclass(frozen=True, slots=True)
class Problem:
    """`path` names the key, as `mix.classes[0].weight`; `message` says what to do."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


class Problems(list[Problem]):
    def add(self, path: str, message: str) -> None:
        self.append(Problem(path, message))


def build(kind: type[S], document: object, path: str, problems: Problems) -> S | None:
    """A `kind` made of `document`; null when something in it is wrong, which is then in `problems`."""
    if not isinstance(document, Mapping):
        problems.add(path, f"must be an object, not {shown(document)}")
        return None
    before = len(problems)
    fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    unknown_keys(document, fields, path, problems)
    values: dict[str, Any] = {}
    for key, field in fields.items():
        if key in document:
            values[field.name] = _value(field.type, document[key], join(path, key), problems)
        elif field.required:
            problems.add(join(path, key), f"is missing; it must be {_wanted(field.type)}")
    return kind(**values) if len(problems) == before else None


def unknown_keys(document: Mapping[str, Any], known: Iterable[str], path: str, problems: Problems) -> None:
    known = list(known)
    for key in document:
        if key not in known:
            near = difflib.get_close_matches(str(key), known, 1)
            hint = f"; did you mean {near[0]}?" if near else f"; known keys are {', '.join(known)}"
            problems.add(join(path, str(key)), f"is not a known key{hint}")


def join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def shown(value: object) -> str:
    """A value in a message; never what stands inside an object, which may be a secret header."""
    text = "an object" if isinstance(value, Mapping) else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _value(kind: Any, value: object, path: str, problems: Problems) -> Any:
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return build(kind, value, path, problems)
    options = typing.get_args(kind) if typing.get_origin(kind) in (typing.Union, types.UnionType) else (kind,)
    structs = [option for option in options if isinstance(option, type) and issubclass(option, msgspec.Struct)]
    if structs and isinstance(value, Mapping):
        return _tagged(structs, value, path, problems)
    if typing.get_origin(kind) is tuple and isinstance(value, list):
        item = typing.get_args(kind)[0]
        return tuple(_value(item, one, f"{path}[{place}]", problems) for place, one in enumerate(value))
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError:
        problems.add(path, f"must be {_wanted(kind)}, not {shown(value)}")
        return None


def _tagged(structs: list[type[msgspec.Struct]], value: Mapping[str, Any], path: str, problems: Problems) -> Any:
    """The one of several structs that the document's tag names."""
    configs = {str(struct.__struct_config__.tag): struct for struct in structs}
    field = structs[0].__struct_config__.tag_field
    if field is None:
        return build(structs[0], value, path, problems)
    struct = configs.get(str(value.get(field)))
    if struct is None:
        problems.add(join(path, field), f"must be one of {', '.join(configs)}, not {shown(value.get(field))}")
        return None
    return build(struct, {key: one for key, one in value.items() if key != field}, path, problems)


def _wanted(kind: Any) -> str:
    """A type in words: its description where it has one."""
    if typing.get_origin(kind) is typing.Annotated:
        for extra in kind.__metadata__:
            if isinstance(extra, msgspec.Meta) and extra.description:
                return extra.description
        return _wanted(kind.__origin__)
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        return " or ".join(_options(typing.get_args(kind)))
    if typing.get_origin(kind) is typing.Literal:
        return "one of " + ", ".join(typing.get_args(kind))
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return "an object"
    names = {bool: "true or false", str: "text", int: "a whole number", float: "a number", type(None): "null"}
    return names.get(kind, "an object" if typing.get_origin(kind) is dict else "a list")


def _options(kinds: tuple[Any, ...]) -> Iterable[str]:
    tagged = [kind.__struct_config__ for kind in kinds if isinstance(kind, type) and issubclass(kind, msgspec.Struct)]
    tags = ", ".join(str(config.tag) for config in tagged if config.tag)
    for kind in kinds:
        if not (isinstance(kind, type) and issubclass(kind, msgspec.Struct)):
            yield _wanted(kind)
    if tagged:
        yield f"an object with {tagged[0].tag_field} one of {tags}" if tags else "an object"
