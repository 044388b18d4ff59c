"""Decides which exact URL is called for an address as a person types it. Knows nothing of HTTP itself."""

from __future__ import annotations

from typing import Literal
from urllib.parse import SplitResult, quote, urlsplit, urlunsplit

Protocol = Literal["openai-chat", "openai-completions"]

_PATHS: dict[str, str] = {"openai-chat": "/chat/completions", "openai-completions": "/completions"}
_SAFE = "/%:@!$&'()*+,;=~-._[]"


class AddressError(ValueError):
    """The address cannot be used; the message says what to type instead."""


def endpoint_url(base_url: str, protocol: str) -> str:
    """The URL that generates text. A query is kept; a full endpoint, and `/v1` or its absence, are understood.

    Raises AddressError.
    """
    return _below_root(base_url, _PATHS[protocol])


def models_url(base_url: str) -> str:
    """The URL that lists the models. Raises AddressError."""
    return _below_root(base_url, "/models")


def api_root(base_url: str) -> str:
    """The API's root without query, as `http://h:8000/v1`. Raises AddressError."""
    parts = _split(base_url)
    return urlunsplit((parts.scheme, parts.netloc, _root_path(parts), "", ""))


def metrics_guess(base_url: str) -> str:
    """Where an engine behind this address usually serves its metrics. Raises AddressError."""
    parts = _split(base_url)
    return urlunsplit((parts.scheme, parts.netloc, "/metrics", "", ""))


def without_query(url: str) -> str:
    """The URL as it may be shown: a query can hold a key."""
    return url.partition("?")[0]


def _below_root(base_url: str, path: str) -> str:
    parts = _split(base_url)
    return urlunsplit((parts.scheme, parts.netloc, _root_path(parts) + path, quote(parts.query, safe=_SAFE + "?"), ""))


def _root_path(parts: SplitResult) -> str:
    path = quote(parts.path.rstrip("/"), safe=_SAFE)
    for known in _PATHS.values():
        if path.endswith(known):
            return path.removesuffix(known)
    return path or "/v1"


def _split(base_url: str) -> SplitResult:
    typed = base_url.strip()
    if any(character <= " " or character == "\x7f" for character in typed):
        raise AddressError("the address must not hold spaces or control characters")
    try:
        parts = urlsplit(typed)
        port = parts.port
    except ValueError as error:
        raise AddressError(f"the address is not a URL ({error}); type it like http://host:8000/v1") from None
    if parts.scheme not in ("http", "https") or not typed.partition(":")[2].startswith("//"):
        raise AddressError("the address must begin with http:// or https://, like http://host:8000/v1")
    if "@" in parts.netloc:
        raise AddressError("the address must not hold a user name or password; give a key as API key or header")
    if not parts.hostname:
        raise AddressError("the address has no host; type it like http://host:8000/v1")
    if not parts.hostname.isascii():
        raise AddressError("the host must be written in ASCII, as its DNS name is (xn--...)")
    if port == 0:
        raise AddressError("the address has port 0; ports are 1 to 65535")
    if parts.fragment:
        raise AddressError("the address must not hold a fragment (#...)")
    return parts
