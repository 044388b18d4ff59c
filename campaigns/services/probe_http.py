"""Asks a server one bounded question over HTTP and says in words why there was no answer."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from workers.loadgen.payload import error_text


@dataclass(frozen=True, slots=True)
class Limits:
    """How long a preflight waits, in seconds, and how much it reads."""

    connect_s: float = 5
    models_s: float = 10
    page_s: float = 5
    first_byte_s: float = 30
    stream_s: float = 60
    body_bytes: int = 8_000_000


LIMITS = Limits()


class NoAnswer(Exception):
    """There was no HTTP answer: `detail` says what happened, `hint` what to do."""

    def __init__(self, detail: str, hint: str) -> None:
        super().__init__(detail)
        self.detail = detail
        self.hint = hint


_SLOW = "See whether the server is still loading its model, or is overloaded."


@dataclass(frozen=True, slots=True)
class Reply:
    url: str
    status: int
    headers: httpx.Headers
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode("utf-8", "replace")

    @property
    def document(self) -> dict[str, Any]:
        """The body's JSON object; empty when it holds none."""
        try:
            document = json.loads(self.body)
        except (ValueError, RecursionError):
            return {}
        return document if isinstance(document, dict) else {}

    @property
    def error(self) -> str:
        """The server's own words for what went wrong."""
        return f"HTTP {self.status}: {error_text(self.body) or 'no reason given'}"


def open_client(verify_tls: bool) -> httpx.AsyncClient:
    """Straight to the server: no proxy or .netrc of this machine's environment, no redirect, no retry."""
    return httpx.AsyncClient(verify=verify_tls, trust_env=False, follow_redirects=False)


async def get(client: httpx.AsyncClient, url: str, limit_s: float, headers: dict[str, str] | None = None) -> Reply:
    """Raises NoAnswer."""
    async with (
        answering(url, limit_s, limit_s),
        asyncio.timeout(limit_s),
        client.stream("GET", url, headers=headers, timeout=timeouts()) as response,
    ):
        return await read(response)


async def read(response: httpx.Response) -> Reply:
    """The whole answer, up to `LIMITS.body_bytes` of it."""
    parts: list[bytes] = []
    size = 0
    async for part in response.aiter_bytes():
        parts.append(part)
        size += len(part)
        if size >= LIMITS.body_bytes:
            break
    return Reply(str(response.request.url), response.status_code, response.headers, b"".join(parts))


def timeouts(read_s: float | None = None) -> httpx.Timeout:
    """`read_s`: the longest silence (None: any), beside the limit on the whole."""
    return httpx.Timeout(read_s, connect=LIMITS.connect_s)


@asynccontextmanager
async def answering(url: str, silence_s: float, total_s: float) -> AsyncIterator[None]:
    """Turns what can go wrong inside into NoAnswer; the limits are those that the caller has set."""
    try:
        yield
    except httpx.ConnectTimeout:
        raise NoAnswer(
            f"connecting to {_place(url)} took longer than {LIMITS.connect_s:g} s",
            "Check host and port, and whether a firewall lets this machine through.",
        ) from None
    except httpx.TimeoutException:
        raise NoAnswer(f"{_place(url)} is connected but said nothing for {silence_s:g} s", _SLOW) from None
    except TimeoutError:
        raise NoAnswer(f"{_place(url)} gave no whole answer within {total_s:g} s", _SLOW) from None
    except httpx.TransportError as error:
        raise _no_answer(url, error) from None


def _place(url: str) -> str:
    parts = httpx.URL(url)
    return f"{parts.netloc.decode()}" if parts.port else f"{parts.host} ({parts.scheme})"


def _no_answer(url: str, error: httpx.TransportError) -> NoAnswer:
    place, scheme = _place(url), httpx.URL(url).scheme
    for cause in _causes(error):
        match cause:
            case socket.gaierror():
                return NoAnswer(
                    f"the name {httpx.URL(url).host} is not known (DNS)",
                    "Check the host's name, or write its IP address.",
                )
            case ssl.SSLCertVerificationError():
                return NoAnswer(
                    f"certificate not trusted: {cause.verify_message}",
                    "Install a certificate that this machine trusts, or switch off certificate checks for this target.",
                )
            case ssl.SSLError():
                return NoAnswer(
                    f"{place} does not answer in TLS ({cause.reason or cause})",
                    "If it serves plain HTTP, write the address with http://.",
                )
            case ConnectionRefusedError():
                return NoAnswer(
                    f"connection refused: nothing listens on {place}",
                    "Check host and port, and that the server is running and listens on that interface.",
                )
    if isinstance(error, httpx.RemoteProtocolError | httpx.ReadError) and scheme == "http":
        return NoAnswer(
            f"{place} does not answer in HTTP: {error or 'it closed the connection'}",
            "Check the port; if it serves TLS, write the address with https://.",
        )
    return NoAnswer(f"{place} cannot be reached: {error or type(error).__name__}", "Check host, port and network.")


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error, what led to it, and the members of groups, outermost first."""
    waiting: list[BaseException] = [error]
    seen: set[int] = set()
    while waiting:
        one = waiting.pop(0)
        if id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        if isinstance(one, BaseExceptionGroup):
            waiting.extend(one.exceptions)
        waiting.extend(cause for cause in (one.__cause__, one.__context__) if cause is not None)
