"""A small OpenAI server for tests, on raw asyncio, whose times follow a closed form and whose failures are chosen.

`python -m tests.loadgen.server --port 0 --print-port --ttft-ms 20` runs it as a process, `Server` in a thread.
TTFT = ttft_ms + ttft_per_request_ms × (in flight − 1), the gap between events likewise, as of the request's arrival.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import ssl
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from functools import cache
from time import monotonic_ns
from typing import Any

from tokenizers import Tokenizer

BASE_TOKENS = 12
TOKENS_A_WORD = 1.3
FAILURES = ("", "401", "429", "500", "hang", "reset", "cut", "error", "redirect")


@dataclass(slots=True)
class Behaviour:
    """`fail` says what happens to a request, `fail_every` to which ones (1: to all)."""

    ttft_ms: float = 5.0
    ttft_per_request_ms: float = 0.0
    itl_ms: float = 1.0
    itl_per_request_ms: float = 0.0
    tokens_an_event: int = 1
    usage: bool = True
    stop_after: int | None = None
    idle_close_after: int | None = None
    fail: str = ""
    fail_every: int = 1
    retry_after: str | None = None
    tokenizer: str | None = None
    key: str | None = None


@dataclass(slots=True)
class Seen:
    """What the server saw of one request; times are monotonic ns."""

    headers: dict[str, str]
    body: dict[str, Any]
    path: str
    prompt_tokens: int
    arrived_ns: int
    in_flight: int
    first_ns: int | None = None
    last_ns: int | None = None
    closed_early: bool = False


@dataclass(slots=True)
class Server:
    """`with Server(...).running() as server:` serves from a thread of its own; `seen` is in order of arrival."""

    behaviour: Behaviour = field(default_factory=Behaviour)
    host: str = "127.0.0.1"
    port: int = 0
    tls: ssl.SSLContext | None = None
    seen: list[Seen] = field(default_factory=list)
    connections: int = 0
    in_flight: int = 0
    in_flight_max: int = 0

    @property
    def base_url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.tls else 'http'}://{host}:{self.port}/v1"

    async def start(self) -> asyncio.Server:
        server = await asyncio.start_server(self._serve, self.host, self.port, ssl=self.tls, backlog=1024)
        self.port = server.sockets[0].getsockname()[1]
        return server

    @contextlib.contextmanager
    def running(self) -> Iterator[Server]:
        loop = asyncio.new_event_loop()
        thread = threading.Thread(target=loop.run_forever, name="test server", daemon=True)
        thread.start()
        server = asyncio.run_coroutine_threadsafe(self.start(), loop).result(10)
        try:
            yield self
        finally:
            asyncio.run_coroutine_threadsafe(_shut(server), loop).result(10)
            loop.call_soon_threadsafe(loop.stop)
            thread.join(10)
            loop.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        answered = 0
        try:
            while await self._answer_one(reader, writer):
                answered += 1
                if answered == self.behaviour.idle_close_after:
                    break
        except (asyncio.IncompleteReadError, ConnectionError, TimeoutError, asyncio.CancelledError):
            pass
        finally:
            writer.close()
            with contextlib.suppress(Exception):
                await writer.wait_closed()

    async def _answer_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Whether the connection may carry another request."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.strip().split("\r\n")
        method, path, _ = first.split(" ")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        raw = await reader.readexactly(int(headers.get("content-length", 0)))
        if method == "GET":
            document: dict[str, Any] = {"object": "list", "data": [{"id": "m", "object": "model"}]}
            await _send_json(writer, 200, document)
            return True
        body = json.loads(raw)
        self.in_flight += 1
        self.in_flight_max = max(self.in_flight_max, self.in_flight)
        seen = Seen(headers, body, path, self._prompt_tokens(body), monotonic_ns(), self.in_flight)
        self.seen.append(seen)
        try:
            return await self._respond(writer, seen, len(self.seen))
        except ConnectionError:
            seen.closed_early = True
            raise
        finally:
            self.in_flight -= 1

    def _prompt_tokens(self, body: dict[str, Any]) -> int:
        """By the tokenizer, with a template around each message; without one by a rule: so many tokens a word."""
        texts = [str(one["content"]) for one in body["messages"]] if "messages" in body else [str(body["prompt"])]
        if self.behaviour.tokenizer is None:
            return BASE_TOKENS + round(len(" ".join(texts).split()) * TOKENS_A_WORD)
        if "messages" in body:
            texts = [f"<{one['role']}>\n{one['content']}\n" for one in body["messages"]] + ["<assistant>\n"]
        tokenizer = _tokenizer(self.behaviour.tokenizer)
        return len(tokenizer.encode("".join(texts)).ids)

    async def _respond(self, writer: asyncio.StreamWriter, seen: Seen, number: int) -> bool:
        to = self.behaviour
        fail = to.fail if to.fail and number % to.fail_every == 0 else ""
        if to.key is not None and seen.headers.get("authorization") != f"Bearer {to.key}":
            fail = "401"
        if fail.isdigit():
            extra = {"Retry-After": to.retry_after} if to.retry_after is not None else {}
            given = seen.headers.get("authorization", "none")
            await _send_json(writer, int(fail), {"error": {"message": f"refused, the key was {given}"}}, extra)
            return True
        if fail == "redirect":
            await _send_json(writer, 308, {}, {"Location": "http://elsewhere/v1?key=secret-in-query"})
            return True
        if fail == "hang":
            await asyncio.sleep(3600)
        if fail == "reset":
            writer.transport.abort()
            return False
        await self._stream(writer, seen, fail)
        return fail != "cut"

    async def _stream(self, writer: asyncio.StreamWriter, seen: Seen, fail: str) -> None:
        to = self.behaviour
        others = seen.in_flight - 1
        ttft_ms = to.ttft_ms + to.ttft_per_request_ms * others
        itl_ms = to.itl_ms + to.itl_per_request_ms * others
        asked = int(seen.body.get("max_tokens", 16))
        total = min(asked, to.stop_after) if to.stop_after is not None else asked
        chat = "messages" in seen.body
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        if chat:
            await _send_event(writer, {"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]})
        events = range(0, total, to.tokens_an_event)
        for place, start in enumerate(events):
            due_ns = seen.arrived_ns + round((ttft_ms + itl_ms * place) * 1e6)
            await asyncio.sleep(max(0.0, (due_ns - monotonic_ns()) / 1e9))
            if fail and place == len(events) // 2:
                if fail == "error":
                    await _send_event(writer, {"error": {"message": "CUDA out of memory"}})
                break
            text = "word " * min(to.tokens_an_event, total - start)
            last = start + to.tokens_an_event >= total
            reason = ("length" if total == asked else "stop") if last else None
            choice: dict[str, Any] = {"index": 0, "finish_reason": reason}
            choice |= {"delta": {"content": text}} if chat else {"text": text}
            await _send_event(writer, {"choices": [choice]})
            seen.last_ns = monotonic_ns()
            seen.first_ns = seen.first_ns or seen.last_ns
        if fail == "cut":
            return
        if to.usage and not fail:
            usage = {"prompt_tokens": seen.prompt_tokens, "completion_tokens": total}
            await _send_event(writer, {"choices": [], "usage": usage})
        await _send_chunk(writer, b"data: [DONE]\n\n")
        writer.write(b"0\r\n\r\n")
        await writer.drain()


@cache
def _tokenizer(path: str) -> Tokenizer:
    tokenizer = Tokenizer.from_file(path)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


async def _shut(server: asyncio.Server) -> None:
    server.close()
    tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _send_event(writer: asyncio.StreamWriter, document: dict[str, Any]) -> None:
    await _send_chunk(writer, b"data: " + json.dumps(document).encode() + b"\n\n")


async def _send_chunk(writer: asyncio.StreamWriter, data: bytes) -> None:
    if writer.is_closing():
        raise ConnectionResetError
    writer.write(b"%x\r\n%s\r\n" % (len(data), data))
    await writer.drain()


async def _send_json(
    writer: asyncio.StreamWriter, status: int, document: dict[str, Any], extra: dict[str, str] | None = None
) -> None:
    body = json.dumps(document).encode()
    lines = [f"HTTP/1.1 {status} x", "Content-Type: application/json", f"Content-Length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in (extra or {}).items()]
    writer.write("\r\n".join([*lines, "", ""]).encode() + body)
    await writer.drain()


def main() -> None:
    """Every field of Behaviour is an option: `--ttft-per-request-ms 2`."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--print-port", action="store_true")
    parser.add_argument("--no-usage", dest="usage", action="store_false")
    kinds = {"float": float, "int": int, "int | None": int, "str": str, "str | None": str}
    for one in fields(Behaviour):
        if one.name != "usage":
            choices = FAILURES if one.name == "fail" else None
            name = "--" + one.name.replace("_", "-")
            parser.add_argument(name, type=kinds[str(one.type)], default=one.default, choices=choices)
    options = parser.parse_args()
    behaviour = Behaviour(**{one.name: getattr(options, one.name) for one in fields(Behaviour)})
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_forever(Server(behaviour, options.host, options.port), options.print_port))


async def _forever(server: Server, print_port: bool) -> None:
    listening = await server.start()
    if print_port:
        print(server.port, flush=True)
    await listening.serve_forever()


if __name__ == "__main__":
    main()
