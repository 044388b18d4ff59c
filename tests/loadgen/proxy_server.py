"""A small HTTP proxy for tests: tunnels (CONNECT) and forwards (absolute form), with a user and a password if given."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit


@dataclass(slots=True)
class Proxy:
    """`asked` holds the first line of every request that came."""

    login: str | None = None
    tls: ssl.SSLContext | None = None
    asked: list[str] = field(default_factory=list)

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        """The proxy's URL, without a login."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self.tls)
        try:
            yield f"{'https' if self.tls else 'http'}://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        finally:
            server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").strip().split("\r\n")
            self.asked.append(first)
            if self.login is not None and not self._knows(lines):
                writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
                await reader.read()
            else:
                await self._pass_on(first, lines, reader, writer)
        writer.close()

    def _knows(self, lines: list[str]) -> bool:
        assert self.login is not None
        expected = "basic " + base64.b64encode(self.login.encode()).decode()
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        given = headers.get("proxy-authorization", "")
        return given[:6].lower() + given[6:] == expected

    async def _pass_on(
        self, first: str, lines: list[str], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        method, target, version = first.split(" ")
        parts = urlsplit(f"//{target}" if method == "CONNECT" else target)
        server_reader, server_writer = await asyncio.open_connection(parts.hostname, parts.port)
        if method == "CONNECT":
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        else:
            kept = [line for line in lines if not line.lower().startswith("proxy-")]
            server_writer.write("\r\n".join([f"{method} {parts.path} {version}", *kept, "", ""]).encode("latin-1"))
        await asyncio.gather(_copy(reader, server_writer), _copy(server_reader, writer))


async def _copy(source: asyncio.StreamReader, to: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await source.read(65536):
            to.write(data)
            await to.drain()
    to.close()
