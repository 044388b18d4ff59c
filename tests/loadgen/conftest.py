"""What several test modules of the load generator take: each of its transports."""

from __future__ import annotations

import ssl
from collections.abc import Mapping

import pytest

from tests.loadgen.peers import Dial
from workers.loadgen.httpx_transport import HttpxTransport
from workers.loadgen.tls import tls_context
from workers.loadgen.transport import Connection
from workers.loadgen.wire import WireTransport


@pytest.fixture(params=[WireTransport, HttpxTransport], ids=["wire", "httpx"])
def dial(request: pytest.FixtureRequest) -> Dial:
    def connect(url: str, headers: Mapping[str, str] | None = None, tls: ssl.SSLContext | None = None) -> Connection:
        connection: Connection = request.param(url, headers or {}, tls or tls_context()).connection()
        return connection

    return connect
