"""A small HTTP/2 server over TLS for tests: each request is given to a handler, which answers with frames."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import h2.config
import h2.connection
import h2.events
import h2.exceptions
import trustme


@dataclass(slots=True)
class H2Request:
    """A request that was read to its end, and the means to answer it."""

    connection: h2.connection.H2Connection
    writer: asyncio.StreamWriter
    stream: int
    headers: dict[str, str]
    body: bytes = b""

    def head(self, status: int = 200, **headers: str) -> None:
        named = [(name.replace("_", "-"), value) for name, value in headers.items()]
        self.connection.send_headers(self.stream, [(":status", str(status)), *named])
        self.flush()

    def data(self, data: bytes, end: bool = False) -> None:
        self.connection.send_data(self.stream, data, end_stream=end)
        self.flush()

    def flush(self) -> None:
        self.writer.write(self.connection.data_to_send())


Handle = Callable[[H2Request], Awaitable[None]]


@dataclass(slots=True)
class H2Server:
    """Counts its connections, and those of them that are over."""

    handle: Handle
    authority: trustme.CA = field(default_factory=trustme.CA)
    connections: int = 0
    closed: int = 0

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        """The server's URL."""
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self.authority.issue_cert("127.0.0.1").configure_cert(tls)
        tls.set_alpn_protocols(["h2"])
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=tls)
        try:
            yield f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1/chat/completions"
        finally:
            server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        connection = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False, header_encoding="utf-8"))
        connection.initiate_connection()
        writer.write(connection.data_to_send())
        requests: dict[int, H2Request] = {}
        try:
            while data := await reader.read(65536):
                for event in connection.receive_data(data):
                    if isinstance(event, h2.events.RequestReceived):
                        headers = {str(name): str(value) for name, value in event.headers}
                        requests[event.stream_id] = H2Request(connection, writer, event.stream_id, headers)
                    elif isinstance(event, h2.events.DataReceived):
                        requests[event.stream_id].body += event.data
                        connection.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                    elif isinstance(event, h2.events.StreamEnded):
                        await self.handle(requests.pop(event.stream_id))
                writer.write(connection.data_to_send())
        except (ConnectionError, h2.exceptions.ProtocolError):
            pass
        finally:
            self.closed += 1
            writer.close()
