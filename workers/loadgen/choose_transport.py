"""Decides which transport carries a plan's requests, through which proxy and trusting whom. Opens no connection."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from workers.loadgen.checking import Problem
from workers.loadgen.endpoint import endpoint_url
from workers.loadgen.plan import Plan, PlanError
from workers.loadgen.tls import tls_context
from workers.loadgen.transport import Transport
from workers.loadgen.wire import WireTransport


def choose_transport(
    plan: Plan, headers: Mapping[str, str], directory: Path, environment: Mapping[str, str]
) -> tuple[Transport, set[str]]:
    """And the secrets it holds beside the headers. `directory` is where a relative `ca_file` starts. Raises PlanError.

    Wire measures best; it is left for httpx where the plan asks for that, or for what only that does.
    """
    url = endpoint_url(plan.base_url, plan.protocol)
    if plan.http2 and urlsplit(url).scheme != "https":
        raise PlanError([Problem("http2", "needs an https base_url: the two sides agree on it while they set up TLS")])
    tls = _tls(plan, directory)
    proxy, secrets = None, set[str]()
    if plan.proxy is not None:
        # Imported late, like the transport below: httpx takes longer to import than all the rest.
        from workers.loadgen.proxy import find_proxy, proxy_secrets

        proxy = find_proxy(plan.proxy, url, environment)
        secrets = proxy_secrets(proxy) if proxy is not None else secrets
    if plan.transport != "httpx" and proxy is None and not plan.http2:
        return WireTransport(url, headers, tls), secrets
    from workers.loadgen.httpx_transport import HttpxTransport, UnusableUrl

    try:
        return HttpxTransport(url, headers, tls, proxy, plan.http2), secrets
    except UnusableUrl as error:
        raise PlanError([Problem("base_url", f"is no URL for httpx: {error}")]) from None


def _tls(plan: Plan, directory: Path) -> ssl.SSLContext:
    if plan.ca_file is None:
        return tls_context(plan.verify_tls)
    try:
        return tls_context(plan.verify_tls, directory / plan.ca_file)
    except ssl.SSLError:
        message = f"the file {plan.ca_file} holds no certificate; it must have PEM form, with BEGIN CERTIFICATE"
    except (OSError, ValueError) as error:
        message = f"the file {plan.ca_file} cannot be read: {getattr(error, 'strerror', None) or error}"
    raise PlanError([Problem("ca_file", message)])
