"""Which proxy the requests to an address go through, by the plan and the environment. Opens no connection."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from ipaddress import ip_address, ip_network
from urllib.parse import unquote, urlsplit

import httpx

from workers.loadgen.checking import Problem
from workers.loadgen.plan import PlanError

_PORT_MAX = 65535


def find_proxy(setting: str, url: str, environment: Mapping[str, str]) -> str | None:
    """The proxy's URL; null when the setting is `environment`, which names none for `url`. Raises PlanError."""
    found = _named_by(environment, url) if setting == "environment" else setting
    if found is None:
        return None
    try:
        proxy = httpx.URL(found)
    except httpx.InvalidURL:
        proxy = httpx.URL()
    # The URL itself may hold a password: it stays out of the message.
    if proxy.scheme not in ("http", "https") or not proxy.host or (proxy.port or 1) > _PORT_MAX:
        source = "the environment's proxy" if setting == "environment" else ""
        raise PlanError([Problem("proxy", f"{source} must be a URL like http://host:3128".strip())])
    if ":" in (urlsplit(url).hostname or ""):
        raise PlanError([Problem("proxy", "cannot reach an IPv6 address; give a host name in base_url")])
    return found


def proxy_secrets(proxy: str) -> set[str]:
    """What must never be shown: the password as it is, as the URL holds it, and inside the header that carries it."""
    parts = urlsplit(proxy)
    if not parts.password:
        return set()
    password = unquote(parts.password)
    header = b64encode(f"{unquote(parts.username or '')}:{password}".encode()).decode()
    return {parts.password, password, header}


def _named_by(environment: Mapping[str, str], url: str) -> str | None:
    """As httpx and curl read them: lower case before upper case, HTTP_PROXY or HTTPS_PROXY before ALL_PROXY."""

    def value(name: str) -> str:
        return environment.get(name, environment.get(name.upper(), "")).strip()

    parts = urlsplit(url)
    named = value(f"{parts.scheme}_proxy") or value("all_proxy")
    host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
    if not named or any(_excepts(entry.strip(), host, port) for entry in value("no_proxy").split(",")):
        return None
    return named if "://" in named else f"http://{named}"


def _excepts(entry: str, host: str, port: int) -> bool:
    """Whether an entry of NO_PROXY means the host: `*`, an address or network, or a domain, perhaps with a port."""
    if entry == "*":
        return True
    try:
        network = ip_network(entry.strip("[]"), strict=False)
    except ValueError:
        name, _, only_port = entry.lower().lstrip("*").lstrip(".").partition(":")
        return bool(name) and only_port in ("", str(port)) and f".{host}".endswith(f".{name}")
    try:
        return ip_address(host) in network
    except ValueError:
        return False
