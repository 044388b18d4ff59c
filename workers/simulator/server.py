"""What the simulator's port answers: OpenAI's API, and vLLM's version, health and metrics pages."""

from __future__ import annotations

import asyncio
import hmac
import time
from collections.abc import Callable
from itertools import count
from random import Random

import msgspec

from workers.simulator.connection import HttpConnection, Reply, Request
from workers.simulator.engine import Engine
from workers.simulator.metrics import CONTENT_TYPE
from workers.simulator.openai import (
    AnswerBytes,
    Asked,
    FinishReason,
    RequestError,
    error_body,
    models_body,
    read_chat,
    read_completion,
)
from workers.simulator.scenarios import Scenario
from workers.simulator.scheduler import Sequence

VERSION = "0.1.0+simulated"
_BACKLOG = 2048
# How long answers are that the model ends by itself: a log-normal length. No such answer was measured; it only has to
# differ from every max_tokens, as a real model's does.
_NATURAL_MEDIAN_TOKENS = 600
_NATURAL_SIGMA = 0.4


class Server:
    """Serves `engine` until `close`. `api_key` None: everyone may ask."""

    def __init__(self, engine: Engine, scenario: Scenario, model: str, api_key: str | None, seed: int) -> None:
        self._engine = engine
        self._model = model
        self._max_model_len = scenario.max_model_len
        self._api_key = api_key
        self._random = Random(f"{seed} answers")
        self._numbers = count(1)
        self._created = int(time.time())
        self._connections: set[HttpConnection] = set()
        self._listening: asyncio.Server | None = None
        self._routes: dict[str, dict[str, Callable[[Request, Reply], None]]] = {
            "/v1/chat/completions": {"POST": lambda request, reply: self._generate(read_chat(request.body), reply)},
            "/v1/completions": {"POST": lambda request, reply: self._generate(read_completion(request.body), reply)},
            "/v1/models": {"GET": self._models},
            "/version": {"GET": lambda _, reply: reply.send(200, msgspec.json.encode({"version": VERSION}))},
            "/health": {"GET": lambda _, reply: reply.send(200, b"", "text/plain")},
            "/metrics": {"GET": lambda _, reply: reply.send(200, engine.metrics.page(), CONTENT_TYPE)},
        }

    async def listen(self, host: str, port: int) -> int:
        """The port that it listens on, a free one for port 0. Raises OSError."""
        self._listening = await asyncio.get_running_loop().create_server(
            lambda: HttpConnection(self._handle, _plain_error, self._connections), host, port, backlog=_BACKLOG
        )
        taken: int = self._listening.sockets[0].getsockname()[1]
        return taken

    def close(self) -> None:
        if self._listening is not None:
            self._listening.close()
        for connection in list(self._connections):
            connection.abort()

    def _handle(self, request: Request, reply: Reply) -> None:
        try:
            self._route(request)(request, reply)
        except RequestError as error:
            reply.send(error.status, error.body)

    def _route(self, request: Request) -> Callable[[Request, Reply], None]:
        methods = self._routes.get(request.path)
        if methods is None:
            raise RequestError(404, f"There is nothing at {request.path}.", "NotFoundError")
        if request.method not in methods:
            allowed = " and ".join(methods)
            raise RequestError(405, f"{request.path} takes {allowed}, not {request.method}.", "MethodNotAllowedError")
        if request.path.startswith("/v1/") and not self._may_ask(request.headers.get("authorization", "")):
            message = "The API key is missing or wrong: send it as Authorization: Bearer KEY."
            raise RequestError(401, message, "AuthenticationError")
        return methods[request.method]

    def _may_ask(self, authorization: str) -> bool:
        scheme, _, key = authorization.partition(" ")
        return self._api_key is None or (
            scheme.lower() == "bearer" and hmac.compare_digest(key.strip().encode(), self._api_key.encode())
        )

    def _models(self, _: Request, reply: Reply) -> None:
        reply.send(200, models_body(self._model, self._max_model_len, self._created))

    def _generate(self, asked: Asked, reply: Reply) -> None:
        if asked.model not in (None, self._model):
            raise RequestError(404, f"The model `{asked.model}` does not exist.", "NotFoundError", "model")
        natural_tokens = round(self._random.lognormvariate(0, _NATURAL_SIGMA) * _NATURAL_MEDIAN_TOKENS)
        output_tokens, reason = asked.answer_length(natural_tokens, self._max_model_len)
        content = AnswerBytes(asked, f"{next(self._numbers):08x}", self._model, int(time.time()))
        sequence = Sequence(asked.prompt_tokens, output_tokens)
        reply.on_lost = lambda: self._engine.abort(sequence)
        if asked.stream:
            reply.start("text/event-stream; charset=utf-8")
            self._engine.submit(sequence, _Streamed(content, reason, reply))
        else:
            self._engine.submit(sequence, _Whole(content, reason, reply))


class _Streamed:
    """Sends each token as it comes. See `engine.Listener`."""

    def __init__(self, content: AnswerBytes, finish_reason: FinishReason, reply: Reply) -> None:
        self.finish_reason = finish_reason
        self._content = content
        self._reply = reply

    def on_token(self, place: int, last: bool) -> None:
        data = self._content.token(place)
        if place == 0:
            data = self._content.role() + data
        if last:
            self._reply.end(data + self._content.end(place + 1, self.finish_reason))
        else:
            self._reply.write(data)


class _Whole:
    """Sends the answer when it is whole. See `engine.Listener`."""

    def __init__(self, content: AnswerBytes, finish_reason: FinishReason, reply: Reply) -> None:
        self.finish_reason = finish_reason
        self._content = content
        self._reply = reply

    def on_token(self, place: int, last: bool) -> None:
        if last:
            self._reply.send(200, self._content.whole(place + 1, self.finish_reason))


def _plain_error(status: int, message: str) -> bytes:
    return error_body(status, message, "BadRequestError")
