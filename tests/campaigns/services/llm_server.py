"""A real HTTP server on a free port that answers as one kind of deployment or another would, for tests of preflight."""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = Callable[["Request"], None]


@dataclass
class Request:
    """One request and the means to answer it."""

    handler: BaseHTTPRequestHandler
    path: str
    body: dict[str, Any]
    closing: threading.Event

    def answer(self, status: int, body: bytes | str | dict[str, Any] = b"", kind: str = "", **headers: str) -> None:
        data = json.dumps(body).encode() if isinstance(body, dict) else body.encode() if isinstance(body, str) else body
        kind = kind or ("application/json" if isinstance(body, dict) else "text/plain")
        self._head(status, kind, {"Content-Length": str(len(data)), **headers})
        self.handler.wfile.write(data)

    def stream(self, *parts: str, kind: str = "text/event-stream", **headers: str) -> None:
        self._head(200, kind, {"Connection": "close", **headers})
        for part in parts:
            self.handler.wfile.write(part.encode())
            self.handler.wfile.flush()
        self.handler.close_connection = True

    def hang(self) -> None:
        """Say nothing until the server closes."""
        self.closing.wait(60)
        self.handler.close_connection = True

    def _head(self, status: int, kind: str, headers: dict[str, str]) -> None:
        self.handler.send_response(status)
        for name, value in {"Content-Type": kind, **headers}.items():
            self.handler.send_header(name.replace("_", "-"), value)
        self.handler.end_headers()


@dataclass
class Server:
    """`answers`: {"GET /v1/models": how}; what is not there is 404. `seen`: what was asked, with its headers."""

    answers: dict[str, Answer]
    port: int = 0
    scheme: str = "http"
    name: str = ""
    seen: list[tuple[str, dict[str, str], dict[str, Any]]] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}"


def event(delta: dict[str, Any], finish: str | None = None) -> str:
    return f"data: {json.dumps({'choices': [{'index': 0, 'delta': delta, 'finish_reason': finish}]})}\n\n"


def usage(tokens: int) -> str:
    document = {"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": tokens, "total_tokens": 9 + tokens}}
    return f"data: {json.dumps(document)}\n\n"


def chat(request: Request) -> None:
    """A well-behaved streamed answer of as many tokens as were asked for."""
    tokens = request.body["max_tokens"]
    words = [event({"content": f"w{place} "}) for place in range(tokens)]
    request.stream(event({"role": "assistant", "content": ""}), *words, event({}, "length"), usage(tokens), DONE)


DONE = "data: [DONE]\n\n"


def models(*names: str, **more: Any) -> Answer:
    return lambda request: request.answer(200, {"object": "list", "data": [{"id": name, **more} for name in names]})


def good(**changes: Answer) -> dict[str, Answer]:
    """The answers of a vLLM server that serves the model `m`; `changes` by the last part of the path."""
    answers: dict[str, Answer] = {
        "GET /v1/models": models("m", max_model_len=4096, owned_by="vllm"),
        "POST /v1/chat/completions": chat,
        "GET /metrics": lambda request: request.answer(200, 'vllm:num_requests_running{model_name="m"} 0.0\n'),
        "GET /version": lambda request: request.answer(200, {"version": "0.9.1"}),
    }
    for key in answers:
        answers[key] = changes.pop(key.rpartition("/")[2], answers[key])
    assert not changes
    return answers


@contextmanager
def serving(answers: dict[str, Answer], tls: ssl.SSLContext | None = None, name: str = "test/1") -> Iterator[Server]:
    closing = threading.Event()
    server = Server(answers, scheme="https" if tls else "http")

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        server_version = name
        sys_version = ""

        def do_GET(self) -> None:
            size = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(size) or b"{}")
            server.seen.append((f"{self.command} {self.path}", dict(self.headers), body))
            answer = server.answers.get(f"{self.command} {self.path}")
            request = Request(self, self.path, body, closing)
            if answer is None:
                request.answer(404, {"detail": "Not Found"})
            else:
                answer(request)

        do_POST = do_GET

        def log_message(self, format: str, *args: Any) -> None:
            pass

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    httpd.daemon_threads = True
    if tls:
        httpd.socket = tls.wrap_socket(httpd.socket, server_side=True)
    server.port = httpd.server_address[1]
    thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        closing.set()
        httpd.shutdown()
        thread.join()
        httpd.server_close()


def unused_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
