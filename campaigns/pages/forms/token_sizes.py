"""A length in tokens as a form has it: a kind and the parameters of that kind, in columns of one row, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from campaigns.pages.forms.text_values import number, numbers, plain

# The parameters of each kind, as in the load generator's plan; "fixed" is a plain number there.
KINDS: dict[str, tuple[str, ...]] = {
    "fixed": ("tokens",),
    "uniform": ("min", "max"),
    "normal": ("mean", "sd", "min", "max"),
    "lognormal": ("median", "sigma", "min", "max"),
    "empirical": ("values",),
}
PARAMETERS = ("tokens", "mean", "sd", "median", "sigma", "min", "max", "values")


def columns(side: str) -> list[str]:
    """The form's columns of one side, "input" or "output"."""
    return [f"{side}_{part}" for part in ("kind", *PARAMETERS)]


def size_of(row: Mapping[str, str], side: str) -> int | float | dict[str, Any]:
    """The plan's `input_tokens` or `output_tokens`. Raises ValidationError; a parameter that is empty is left out, so
    that the service says whether it is needed."""
    kind = row[f"{side}_kind"] or "fixed"
    if kind == "fixed":
        return number(row[f"{side}_tokens"], f"{side} tokens")
    size: dict[str, Any] = {"dist": kind}
    for name in KINDS.get(kind, ()):
        text = row[f"{side}_{name}"].strip()
        if text:
            size[name] = numbers(text, f"{side} {name}") if name == "values" else number(text, f"{side} {name}")
    return size


def row_of(size: int | float | Mapping[str, Any], side: str) -> dict[str, str]:
    """The form's columns that show `size`."""
    row = dict.fromkeys(columns(side), "")
    if isinstance(size, int | float):
        return {**row, f"{side}_kind": "fixed", f"{side}_tokens": plain(size)}
    row[f"{side}_kind"] = str(size.get("dist", "fixed"))
    for name in KINDS.get(str(size.get("dist")), ()):
        value = size.get(name)
        if isinstance(value, list):
            row[f"{side}_{name}"] = ", ".join(plain(one) for one in value)
        elif value is not None:
            row[f"{side}_{name}"] = plain(value)
    return row


def words_of(size: Any) -> str:
    """A length in words: "500", "uniform 100–900"."""
    if isinstance(size, int | float):
        return plain(size)
    if not isinstance(size, Mapping):
        return "from a file"
    value = {name: plain(one) for name, one in size.items() if isinstance(one, int | float)}
    match size.get("dist"):
        case "uniform":
            return f"uniform {value.get('min')}–{value.get('max')}"
        case "normal":
            return f"normal {value.get('mean')} ± {value.get('sd')}"
        case "lognormal":
            return f"lognormal, median {value.get('median')}, σ {value.get('sigma')}"
        case "empirical":
            return f"{len(size.get('values', []))} sampled lengths"
        case other:
            return str(other)
