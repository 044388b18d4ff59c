"""A server of the OpenAI chat protocol whose latency is a formula of the requests in flight, so that the true load
line is known. It runs in a thread of the test and can be told to refuse, to cut lengths, or to die."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

Latency = Callable[[int], tuple[float, float]]
# Long against what a busy machine adds, short enough for tests.
TTFT_S, TPOT_S = 0.080, 0.010
KEY = "sk-test-0123456789"


def steady(_: int) -> tuple[float, float]:
    return TTFT_S, TPOT_S


def linear(limit: float) -> Latency:
    """TTFT grows in a straight line and is 50% worse than alone at exactly `limit` requests; TPOT stays."""
    slope = 0.5 / (limit - 1)
    return lambda in_flight: (TTFT_S * (1 + slope * (in_flight - 1)), TPOT_S)


def step(last_good: int) -> Latency:
    """Twice as slow from `last_good` + 1 requests on."""
    return lambda in_flight: (TTFT_S, TPOT_S) if in_flight <= last_good else (2 * TTFT_S, 2 * TPOT_S)


@dataclass
class Engine:
    latency: Latency = steady
    cap: int | None = None
    needs_key: bool = False
    usage: bool = True
    streams: bool = True
    tokens_max: int | None = None
    server: str = ""
    refuses_fields: tuple[str, ...] = ()
    port: int = 0
    in_flight: int = 0
    peak: int = 0
    requests: int = 0
    keys_seen: set[str] = field(default_factory=set)
    locked_out: bool = False
    # From so many requests on (the preflight's among them) all are refused.
    refuse_after: int | None = None
    # When so many are in flight for the first time, the function is called.
    at_peak: tuple[int, Callable[[], None]] | None = None
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.new_event_loop)
    _server: asyncio.Server | None = None
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _writers: set[asyncio.StreamWriter] = field(default_factory=set)

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def die(self) -> None:
        """Close the port and every connection, as a crashed process would."""
        asyncio.run_coroutine_threadsafe(self._die(), self._loop).result(5)

    def die_soon(self) -> None:
        """The same from inside the engine's own loop."""
        self._tasks.add(self._loop.create_task(self._die()))

    def lock_out(self) -> None:
        """No key is good any more."""
        self.locked_out = True

    async def _die(self) -> None:
        if self._server is not None:
            self._server.close()
        for writer in list(self._writers):
            writer.transport.abort()

    async def _quit(self) -> None:
        await self._die()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _serve(self) -> None:
        self._server = await asyncio.start_server(self._connection, "127.0.0.1", 0, backlog=512)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while head := await reader.readuntil(b"\r\n\r\n"):
                first, *rest = head.decode().split("\r\n")
                headers = {
                    name.lower(): value.strip() for name, _, value in (line.partition(":") for line in rest if line)
                }
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                await self._answer(first.split(" ")[1], headers, body, writer)
        self._writers.discard(writer)
        writer.close()

    async def _answer(self, path: str, headers: dict[str, str], body: bytes, writer: asyncio.StreamWriter) -> None:
        key = headers.get("authorization", "").removeprefix("Bearer ")
        self.keys_seen.add(key)
        if self.locked_out or (self.needs_key and key != KEY):
            return _json(writer, 401, {"error": {"message": f"no such key: {key}"}})
        if path == "/v1/models":
            models: dict[str, object] = {"object": "list", "data": [{"id": "m", "object": "model"}]}
            return _json(writer, 200, models, {"Server": self.server} if self.server else None)
        if path != "/v1/chat/completions":
            return _json(writer, 404, {"error": {"message": "no such page"}})
        self.in_flight += 1
        self.requests += 1
        self.peak = max(self.peak, self.in_flight)
        if self.at_peak is not None and self.in_flight >= self.at_peak[0]:
            (_, happens), self.at_peak = self.at_peak, None
            happens()
        try:
            await self._complete(json.loads(body), writer)
        finally:
            self.in_flight -= 1
        return None

    async def _complete(self, ask: dict[str, object], writer: asyncio.StreamWriter) -> None:
        for name in self.refuses_fields:
            if name in ask:
                return _json(writer, 400, {"error": {"message": f"Unrecognized request argument supplied: {name}"}})
        full = self.cap is not None and self.in_flight > self.cap
        if full or (self.refuse_after is not None and self.requests > self.refuse_after):
            # As a gateway does: the answer takes a moment, so that a closed loop does not spin.
            await asyncio.sleep(0.02)
            return _json(writer, 429, {"error": {"message": "queue is full"}})
        asked = int(ask.get("max_tokens") or ask.get("max_completion_tokens") or 8)  # type: ignore[call-overload]
        tokens = min(asked, self.tokens_max or asked)
        finish = "length" if tokens == asked else "stop"
        usage = {"prompt_tokens": len(json.dumps(ask["messages"])) // 5, "completion_tokens": tokens}
        ttft_s, tpot_s = self.latency(self.in_flight)
        loop = asyncio.get_running_loop()
        due = loop.time() + ttft_s
        if not (self.streams and ask.get("stream")):
            await asyncio.sleep(ttft_s + tpot_s * (tokens - 1))
            message = {"role": "assistant", "content": "word " * tokens}
            return _json(
                writer, 200, {"choices": [{"index": 0, "message": message, "finish_reason": finish}], "usage": usage}
            )
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        for token in range(tokens):
            await asyncio.sleep(due + token * tpot_s - loop.time())
            if writer.is_closing():
                return None
            _event(writer, {"choices": [{"index": 0, "delta": {"content": f"word{token} "}, "finish_reason": None}]})
        _event(writer, {"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
        options = ask.get("stream_options")
        if self.usage and isinstance(options, dict) and options.get("include_usage"):
            _event(writer, {"choices": [], "usage": usage})
        _chunk(writer, b"data: [DONE]\n\n")
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        return None


def _event(writer: asyncio.StreamWriter, data: dict[str, object]) -> None:
    _chunk(writer, b"data: " + json.dumps({"object": "chat.completion.chunk", "model": "m", **data}).encode() + b"\n\n")


def _chunk(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(b"%x\r\n%s\r\n" % (len(data), data))


def _json(
    writer: asyncio.StreamWriter, status: int, data: dict[str, object], headers: dict[str, str] | None = None
) -> None:
    body = json.dumps(data).encode()
    lines = {"Content-Type": "application/json", "Content-Length": str(len(body)), **(headers or {})}
    head = f"HTTP/1.1 {status} X\r\n" + "".join(f"{name}: {value}\r\n" for name, value in lines.items()) + "\r\n"
    writer.write(head.encode() + body)


@contextmanager
def serving(engine: Engine) -> Iterator[Engine]:
    """The engine at work on a free port of 127.0.0.1."""
    thread = threading.Thread(target=engine._loop.run_forever, daemon=True)
    thread.start()
    asyncio.run_coroutine_threadsafe(engine._serve(), engine._loop).result(5)
    try:
        yield engine
    finally:
        asyncio.run_coroutine_threadsafe(engine._quit(), engine._loop).result(5)
        engine._loop.call_soon_threadsafe(engine._loop.stop)
        thread.join(5)
