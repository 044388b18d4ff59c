"""The least that a client can do in Python with asyncio, uvloop and httptools: it cuts events and stamps them.

`python floor.py URL STREAMS SECONDS OUT`: OUT gets the times as JSON. It reads no JSON, keeps no outcome, knows no
failure.
"""

from __future__ import annotations

import asyncio
import json
import sys
from array import array
from pathlib import Path
from time import monotonic_ns
from typing import cast
from urllib.parse import urlsplit

import httptools
import uvloop

BODY = b'{"model":"m","messages":[{"role":"user","content":"a b c"}],"stream":true,"max_tokens":100}'


class Floor(asyncio.Protocol):
    def __init__(self, host: str, seconds: float) -> None:
        head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: {host}\r\nContent-Length: {len(BODY)}\r\n\r\n"
        self.request = head.encode() + BODY
        self.seconds = seconds
        self.over = asyncio.get_running_loop().create_future()
        self.requests: list[tuple[int, array[int]]] = []

    def start(self) -> None:
        self.times: array[int] = array("q")
        self.parser = httptools.HttpResponseParser(self)
        self.sent_ns = monotonic_ns()
        self.transport.write(self.request)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.WriteTransport, transport)
        self.began_ns = monotonic_ns()

    def data_received(self, data: bytes) -> None:
        self.now_ns = monotonic_ns()
        self.parser.feed_data(data)

    def on_body(self, data: bytes) -> None:
        for _ in range(data.count(b"\n\n")):
            self.times.append(self.now_ns)

    def on_message_complete(self) -> None:
        self.requests.append((self.sent_ns, self.times))
        if monotonic_ns() - self.began_ns < self.seconds * 1e9:
            asyncio.get_running_loop().call_soon(self.start)
        else:
            self.over.set_result(None)


async def main(url: str, streams: int, seconds: float, out: Path) -> None:
    parts = urlsplit(url)
    host, port = str(parts.hostname), int(parts.port or 80)
    loop = asyncio.get_running_loop()
    lines: list[Floor] = []
    for _ in range(streams):
        _, line = await loop.create_connection(lambda: Floor(parts.netloc, seconds), host, port)
        lines.append(line)
    for line in lines:
        line.start()
        await asyncio.sleep(2 / streams)
    await asyncio.gather(*(line.over for line in lines))
    # The last three events of an answer hold no token: finish reason, usage, [DONE].
    rows = [(sent_ns, list(times)[:-3]) for line in lines for sent_ns, times in line.requests]
    out.write_text(json.dumps(rows))


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), Path(sys.argv[4])))
