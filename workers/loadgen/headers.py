"""The headers that every request of a stage carries, whichever transport sends it. The plan's win over its own."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit


def request_headers(url: str, given: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    """All but what differs from request to request: its id and its length."""
    own = {
        "Host": urlsplit(url).netloc,
        "User-Agent": "brimline-loadgen",
        "Accept": "text/event-stream, application/json",
        "Accept-Encoding": "identity",
        "Content-Type": "application/json",
    }
    names = {name.lower() for name in given}
    headers = [(name, value) for name, value in own.items() if name.lower() not in names] + list(given.items())
    return [(name.encode("ascii"), value.strip(" \t").encode("latin-1")) for name, value in headers]
