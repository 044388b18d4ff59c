"""Finds out which engine answers, its version and limits, and where its metrics are. All of it is advisory."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import httpx

from campaigns.services.address import TargetAddress
from campaigns.services.probe_http import LIMITS, NoAnswer, Reply, get

SIMULATOR = "brimline-simulator"
_SIMULATED_METRIC = re.compile(r"^brimline_simulated\b", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Engine:
    """How to know an engine: its Server header, the start of its metrics' names, `owned_by` of its models; and the
    pages below the server's root that state its version, each with the key that holds it."""

    name: str
    server: str
    metrics: str
    owner: str
    versions: tuple[tuple[str, str], ...]


# vllm/entrypoints/openai/api_server.py; sglang/srt/entrypoints/http_server.py; text-generation-inference
# router/src/server.rs; llama.cpp tools/server/server.cpp.
ENGINES = (
    Engine("vLLM", "vllm", "vllm:", "vllm", (("/version", "version"),)),
    Engine("SGLang", "sglang", "sglang:", "sglang", (("/server_info", "version"), ("/get_server_info", "version"))),
    Engine("TGI", "text-generation", "tgi_", "", (("/info", "version"),)),
    Engine("llama.cpp", "llama.cpp", "llamacpp:", "llamacpp", (("/props", "build_info"),)),
)


@dataclass(frozen=True, slots=True)
class MetricsSeen:
    """`url` and `engine` of the first page that holds metrics of a known engine; else null, and `detail` says why."""

    detail: str
    hint: str = ""
    url: str | None = None
    engine: Engine | None = None
    simulated: bool = False

    @property
    def ok(self) -> bool:
        return self.engine is not None


@dataclass(frozen=True, slots=True)
class EngineSeen:
    name: str | None = None
    version: str | None = None
    max_model_len: int | None = None


async def look_at_metrics(client: httpx.AsyncClient, address: TargetAddress) -> MetricsSeen:
    """The first metrics page that a known engine wrote."""
    seen = MetricsSeen("no metrics page was found")
    for url in address.metrics_pages():
        seen = await _page(client, address, url)
        if seen.ok:
            break
    return seen


async def _page(client: httpx.AsyncClient, address: TargetAddress, url: str) -> MetricsSeen:
    # A metrics page may be on another host, which must not get the key.
    headers = address.auth_headers() if _origin(url) == _origin(address.base_url) else None
    try:
        reply = await get(client, url, LIMITS.page_s, headers)
    except NoAnswer as error:
        return MetricsSeen(f"GET {url}: {error.detail}", error.hint)
    if reply.status != 200:
        return MetricsSeen(
            f"GET {url} answered {reply.status}",
            "Switch the engine's metrics on (SGLang --enable-metrics, llama.cpp --metrics), or give their address.",
        )
    simulated = bool(_SIMULATED_METRIC.search(reply.text))
    for engine in ENGINES:
        if re.search(rf"^{re.escape(engine.metrics)}", reply.text, re.MULTILINE):
            return MetricsSeen(f"GET {url} holds metrics of {engine.name}", "", url, engine, simulated)
    return MetricsSeen(
        f"GET {url} holds no metrics of an engine that Brimline knows",
        "Without them queue, cache and batch cannot be explained. Check the address.",
        simulated=simulated,
    )


async def look_at_engine(
    client: httpx.AsyncClient, address: TargetAddress, models: Reply, metrics: MetricsSeen
) -> EngineSeen:
    """Name from the Server header, the metrics or the models' owner; version and context length from its pages."""
    listed = _listed(models, address.model)
    engine = _named(models.headers.get("server", ""), metrics, str(listed.get("owned_by", "")))
    max_model_len = _whole(listed.get("max_model_len"))
    version = None
    for path, key in engine.versions if engine else ENGINES[0].versions:
        document = await _document(client, address, path)
        max_model_len = max_model_len or _context(document)
        if isinstance(document.get(key), str):
            version = document[key]
            break
    return EngineSeen(engine.name if engine else None, version, max_model_len)


def is_simulated(models: Reply, metrics: MetricsSeen) -> bool:
    return metrics.simulated or models.headers.get("server", "").lower().startswith(SIMULATOR)


def model_names(models: Reply) -> list[str] | None:
    """The names that the server lists; null when the page is no list of models."""
    entries = models.document.get("data")
    if models.status != 200 or not isinstance(entries, list):
        return None
    return [str(one["id"]) for one in entries if isinstance(one, dict) and "id" in one]


def _named(server: str, metrics: MetricsSeen, owner: str) -> Engine | None:
    for engine in ENGINES:
        if server.lower().startswith(engine.server):
            return engine
    if metrics.engine:
        return metrics.engine
    return next((engine for engine in ENGINES if engine.owner and owner.lower() == engine.owner), None)


def _listed(models: Reply, model: str) -> dict[str, Any]:
    entries = models.document.get("data")
    for entry in entries if isinstance(entries, list) else []:
        if isinstance(entry, dict) and entry.get("id") == model:
            return entry
    return {}


async def _document(client: httpx.AsyncClient, address: TargetAddress, path: str) -> dict[str, Any]:
    try:
        reply = await get(client, address.root + path, LIMITS.page_s, address.auth_headers())
    except NoAnswer:
        return {}
    return reply.document if reply.status == 200 else {}


def _context(document: Mapping[str, Any]) -> int | None:
    """Tokens of a request's context: TGI `max_total_tokens`, SGLang `context_length`, llama.cpp `n_ctx` of a slot."""
    settings = document.get("default_generation_settings")
    slot = settings.get("n_ctx") if isinstance(settings, dict) else None
    for value in (document.get("max_total_tokens"), document.get("context_length"), slot):
        if (whole := _whole(value)) is not None:
            return whole
    return None


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _origin(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.scheme, parts.netloc.lower()
