"""The least that a client can do in Python: asyncio, uvloop and httptools; it cuts events and stamps them, no more.

`python floor.py URL STREAMS SECONDS TOKENS OUT`: for each request OUT gets {number, sent_ns, count, time_ns[count]} as
int64; the number was its X-Request-Id. Reads no JSON and knows no failure.
"""

from __future__ import annotations

import asyncio
import sys
from array import array
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from time import monotonic_ns
from typing import cast
from urllib.parse import urlsplit

import httptools
import uvloop

BODY = b'{"model":"m","messages":[{"role":"user","content":"a b c"}],"stream":true,"max_tokens":%d}'
SPREAD_S = 2.0
# Finish reason, usage and [DONE]: the last events of an answer hold no token.
EVENTS_AFTER_TOKENS = 3


class Floor(asyncio.Protocol):
    def __init__(self, host: str, seconds: float, tokens: int, numbers: Iterator[int]) -> None:
        self.body = BODY % tokens
        length = len(self.body)
        self.head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: {host}\r\nContent-Length: {length}\r\n".encode()
        self.seconds = seconds
        self.numbers = numbers
        self.over = asyncio.get_running_loop().create_future()
        self.requests: list[array[int]] = []

    def start(self) -> None:
        number = next(self.numbers)
        self.parser = httptools.HttpResponseParser(self)
        self.row = array("q", [number, monotonic_ns(), 0])
        self.transport.write(b"%sX-Request-Id: %d\r\n\r\n%s" % (self.head, number, self.body))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.WriteTransport, transport)
        self.began_ns = monotonic_ns()

    def data_received(self, data: bytes) -> None:
        self.now_ns = monotonic_ns()
        self.parser.feed_data(data)

    def on_body(self, data: bytes) -> None:
        for _ in range(data.count(b"\n\n")):
            self.row.append(self.now_ns)

    def on_message_complete(self) -> None:
        row = self.row[:-EVENTS_AFTER_TOKENS]
        row[2] = len(row) - 3
        self.requests.append(row)
        if monotonic_ns() - self.began_ns < self.seconds * 1e9:
            asyncio.get_running_loop().call_soon(self.start)
        else:
            self.over.set_result(None)


async def main(url: str, streams: int, seconds: float, tokens: int, out: Path) -> None:
    parts = urlsplit(url)
    host, port = str(parts.hostname), int(parts.port or 80)
    loop = asyncio.get_running_loop()
    numbers = count()
    lines: list[Floor] = []
    for _ in range(streams):
        _, line = await loop.create_connection(lambda: Floor(parts.netloc, seconds, tokens, numbers), host, port)
        lines.append(line)
    for line in lines:
        line.start()
        await asyncio.sleep(min(SPREAD_S, seconds) / streams)
    await asyncio.gather(*(line.over for line in lines))
    with out.open("wb") as file:
        for line in lines:
            for row in line.requests:
                row.tofile(file)


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4]), Path(sys.argv[5])))
