"""Where a target's server is and how to identify oneself to it: all that a request needs, apart from the database."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from campaigns.models import Target
from campaigns.models.secret import Secret
from campaigns.services.redaction import Redactor
from campaigns.services.targets import headers_of
from workers.loadgen.endpoint import api_root, endpoint_url, metrics_guess, models_url


@dataclass(frozen=True, slots=True)
class TargetAddress:
    """`headers` may hold secrets, so a printed address does not show them. `metrics_urls`: the engine's metrics pages;
    where none is named, those where engines usually have them."""

    base_url: str
    model: str
    protocol: str = "openai-chat"
    api_key: Secret = field(default_factory=lambda: Secret(""))
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    verify_tls: bool = True
    metrics_urls: tuple[str, ...] = ()

    @property
    def request_url(self) -> str:
        return endpoint_url(self.base_url, self.protocol)

    @property
    def models_url(self) -> str:
        return models_url(self.base_url)

    @property
    def root(self) -> str:
        """The server's own root, above the API's /v1."""
        return api_root(self.base_url).removesuffix("/v1")

    def metrics_pages(self) -> tuple[str, ...]:
        usual = dict.fromkeys((self.root + "/metrics", metrics_guess(self.base_url)))
        return self.metrics_urls or tuple(usual)

    def auth_headers(self) -> dict[str, str]:
        """What every request carries; the one place that reveals the key."""
        key = {"Authorization": f"Bearer {self.api_key.reveal()}"} if self.api_key else {}
        return {**self.headers, **key}

    def redactor(self) -> Redactor:
        return Redactor([self.api_key.reveal(), *self.headers.values()])


def address_of(target: Target) -> TargetAddress:
    """The target's address with its secrets, as it is now."""
    return TargetAddress(
        base_url=target.base_url,
        model=target.model,
        protocol=target.protocol,
        api_key=target.api_key,
        headers=headers_of(target),
        verify_tls=target.verify_tls,
        metrics_urls=tuple(one["url"] for one in target.metrics if one["kind"] == "engine" and one.get("url")),
    )
