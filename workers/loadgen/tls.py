"""Whom a TLS connection trusts, by the plan. Knows neither the server nor who speaks HTTP over it."""

from __future__ import annotations

import ssl
from pathlib import Path


def tls_context(verify: bool = True, ca_file: Path | None = None) -> ssl.SSLContext:
    """Trusts the system's authorities and those of the PEM file `ca_file`; anyone when `verify` is false.

    Raises OSError when the file cannot be read; ssl.SSLError, which is one, when it holds no certificate.
    """
    context = ssl.create_default_context()
    if ca_file is not None:
        context.load_verify_locations(ca_file)
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["http/1.1"])
    return context
