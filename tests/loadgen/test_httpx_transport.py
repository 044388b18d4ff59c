"""What only the httpx transport does: proxies and HTTP/2, against real ones of both."""

from __future__ import annotations

import asyncio
import ssl
from time import monotonic_ns

import h2.errors
import pytest
import trustme

from tests.loadgen.corpus import CASES, Case
from tests.loadgen.h2_server import H2Request, H2Server, Handle
from tests.loadgen.peers import STREAM, WHOLE, ask, parts_of, read_request, replying, run, serving
from tests.loadgen.proxy_server import Proxy
from workers.loadgen.answer import Answer, Outcome
from workers.loadgen.httpx_transport import HttpxTransport
from workers.loadgen.tls import tls_context

LOGIN = "brim:s3cret word"
QUOTED = "brim:s3cret%20word"


def trusting(authority: trustme.CA) -> ssl.SSLContext:
    context = tls_context()
    authority.configure_trust(context)
    return context


def server_context(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    return context


def with_login(proxy: str, login: str = QUOTED) -> str:
    return proxy.replace("://", f"://{login}@")


# Proxies


def test_requests_for_http_are_forwarded_by_the_proxy() -> None:
    heads: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(2):
            heads.append((await read_request(reader))[0])
            writer.write(WHOLE)

    async def test() -> None:
        proxy = Proxy(LOGIN)
        async with serving(serve) as url, proxy.serving() as address:
            connection = HttpxTransport(url, {}, tls_context(), with_login(address)).connection()
            for number in range(2):
                answer = await ask(connection)
                assert (answer.outcome, answer.text) == (Outcome.OK, "a")
                assert (answer.connect_ms is not None) == (number == 0)
            connection.abort()
            assert proxy.asked == [f"POST {url} HTTP/1.1"]

    run(test())
    assert "proxy-authorization" not in heads[0].lower()
    assert "X-Request-Id: id" in heads[0]


@pytest.mark.parametrize("scheme", ["http", "https", "HTTPS"])
def test_requests_for_https_go_through_a_tunnel(scheme: str) -> None:
    async def test() -> None:
        authority = trustme.CA()
        context = server_context(authority)
        proxy = Proxy(LOGIN, None if scheme == "http" else context)
        async with serving(replying(WHOLE, WHOLE), tls=context) as url, proxy.serving() as address:
            given = scheme + with_login(address).removeprefix(scheme.lower())
            transport = HttpxTransport(url, {}, trusting(authority), given)
            connection = transport.connection()
            for number in range(2):
                answer = await ask(connection)
                assert (answer.outcome, answer.text, answer.error) == (Outcome.OK, "a", None)
                assert (answer.connect_ms is not None) == (number == 0)
                assert answer.t_sent_ns is not None
            connection.abort()
            assert proxy.asked == [f"CONNECT {url.split('/')[2]} HTTP/1.1"]
            assert transport.name == "httpx"

    run(test())


@pytest.mark.parametrize("login", ["", QUOTED.replace("s3cret", "wr0ng")], ids=["no login", "wrong login"])
@pytest.mark.parametrize("secure", [False, True], ids=["forwarded", "tunnel"])
def test_a_proxy_that_wants_another_login_is_named_without_it(secure: bool, login: str) -> None:
    async def test() -> None:
        authority = trustme.CA()
        tls = server_context(authority) if secure else None
        async with serving(replying(WHOLE), tls=tls) as url, Proxy(LOGIN).serving() as address:
            given = with_login(address, login) if login else address
            answer = await ask(HttpxTransport(url, {}, trusting(authority), given).connection())
            assert answer.outcome is Outcome.CONNECT_ERROR
            words = answer.error or ""
            port = address.rpartition(":")[2]
            assert words.startswith(f"the proxy 127.0.0.1 port {port} refused: 407 Proxy Authentication Required; give")
            assert "wr0ng" not in words

    run(test())


def test_what_goes_wrong_at_a_proxy_names_the_proxy() -> None:
    async def words(url: str, proxy: str, tls: ssl.SSLContext) -> str:
        answer = await ask(HttpxTransport(url, {}, tls, with_login(proxy)).connection())
        assert answer.outcome is Outcome.CONNECT_ERROR
        assert answer.t_sent_ns is None
        assert "s3cret" not in (answer.error or "")
        return answer.error or ""

    async def junk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"\x15\x03 not http\r\n\r\n")

    async def leave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.close()

    async def forbid(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")

    async def test() -> None:
        authority = trustme.CA()
        tls = trusting(authority)
        async with Proxy().serving() as address:
            gone = address
        place = f"the proxy 127.0.0.1 port {gone.rpartition(':')[2]}"
        for url in ("http://127.0.0.1:9/v1", "https://127.0.0.1:9/v1"):
            assert await words(url, gone, tls) == f"no connection to {place}: Connection refused"
        refused = await words("http://127.0.0.1:9/v1", "http://no-such-host.invalid:3128", tls)
        assert refused.startswith("the proxy no-such-host.invalid cannot be resolved")
        for serve, said in (
            (junk, "refused: illegal"),
            (leave, "refused: Server disconnected"),
            (forbid, "refused: 403 Forb"),
        ):
            async with serving(serve) as address:
                assert said in (found := await words("https://127.0.0.1:9/v1", address, tls))
                assert "the proxy 127.0.0.1 port" in found
        async with Proxy(tls=server_context(trustme.CA())).serving() as address:
            assert "(the proxy 127.0.0.1 port" in (found := await words("http://127.0.0.1:9/v1", address, tls))
            assert "certificate not trusted" in found
        # The proxy is well, but what is behind it is not trusted.
        context = server_context(trustme.CA())
        async with serving(replying(WHOLE), tls=context) as url, Proxy(LOGIN).serving() as address:
            assert "certificate not trusted" in (found := await words(url, address, tls))
            assert "proxy" not in found

    run(test())


@pytest.mark.parametrize("proxied", [False, True], ids=["server", "proxy"])
def test_connecting_has_a_limit(proxied: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workers.loadgen.httpx_transport.CONNECT_LIMIT_S", 0.05)

    async def stay_silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async def test() -> None:
        async with serving(stay_silent) as url:
            place = url.removesuffix("/v1/chat/completions")
            secure = url.replace("http:", "https:")
            transport = HttpxTransport(secure, {}, tls_context(), place if proxied else None)
            answer = await ask(transport.connection())
            assert answer.outcome is Outcome.CONNECT_ERROR
            role = "the proxy " if proxied else ""
            assert f"no connection to {role}127.0.0.1 port {place.rpartition(':')[2]} within" in (answer.error or "")

    run(test())


# HTTP/2


def dialled(server: H2Server, url: str, proxy: str | None = None) -> HttpxTransport:
    return HttpxTransport(url, {"X-Extra": "e"}, trusting(server.authority), proxy, http2=True)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_corpus_over_http2_whatever_the_frames(case: Case) -> None:
    sizes = [1]

    async def handle(request: H2Request) -> None:
        named = {name.lower().replace("-", "_"): value for name, value in case.headers.items()}
        request.head(case.status, content_type=case.content_type, **named)
        for part in parts_of(case.body, sizes):
            request.data(part)
            await request.writer.drain()
        request.data(b"", end=True)

    async def test() -> None:
        server = H2Server(handle)
        async with server.serving() as url:
            transport = dialled(server, url)
            connection = transport.connection()
            for sizes[:] in ([1], [2, 5, 1, 11], [17], [16_000]):
                answer = await ask(connection)
                case.check(answer)
                assert answer.t_sent_ns is not None
            assert transport.name == "httpx/h2"
            assert server.connections == 1
            connection.abort()

    run(test())


async def reply(request: H2Request) -> None:
    request.head(content_type="text/event-stream")
    request.data(STREAM, end=True)


def test_an_http2_request_is_written_as_the_plan_says() -> None:
    seen: list[H2Request] = []

    async def handle(request: H2Request) -> None:
        seen.append(request)
        await reply(request)

    async def test() -> None:
        server = H2Server(handle)
        async with server.serving() as url:
            connection = dialled(server, url + "?key=x").connection()
            body = b"x" * 1_000_000  # more than the server's window
            assert (await ask(connection, body)).outcome is Outcome.OK
            assert seen[0].body == body
            headers = seen[0].headers
            assert headers[":path"] == "/v1/chat/completions?key=x"
            assert headers[":authority"] == url.split("/")[2]
            assert (headers["x-extra"], headers["x-request-id"], headers["content-length"]) == ("e", "id", "1000000")
            connection.abort()

    run(test())


def test_http2_goes_through_a_proxys_tunnel() -> None:
    async def test() -> None:
        server, proxy = H2Server(reply), Proxy()
        async with server.serving() as url, proxy.serving() as address:
            transport = dialled(server, url, address)
            connection = transport.connection()
            for _ in range(2):
                answer = await ask(connection)
                assert (answer.outcome, answer.text) == (Outcome.OK, "a")
            assert (transport.name, server.connections, len(proxy.asked)) == ("httpx/h2", 1, 1)
            connection.abort()

    run(test())


def test_a_server_without_http2_is_spoken_to_in_http1_and_the_name_says_so() -> None:
    async def test() -> None:
        authority = trustme.CA()
        async with serving(replying(WHOLE), tls=server_context(authority)) as url:
            transport = HttpxTransport(url, {}, trusting(authority), http2=True)
            connection = transport.connection()
            assert (await ask(connection)).outcome is Outcome.OK
            assert transport.name == "httpx"
            connection.abort()

    run(test())


def test_each_slot_has_a_connection_of_its_own() -> None:
    together = asyncio.Barrier(12)

    async def handle(request: H2Request) -> None:
        await together.wait()
        await reply(request)

    async def test() -> None:
        server = H2Server(handle)
        async with server.serving() as url:
            transport = dialled(server, url)
            connections = [transport.connection() for _ in range(12)]
            answers = await asyncio.gather(*(ask(connection) for connection in connections))
            assert {answer.outcome for answer in answers} == {Outcome.OK}
            assert server.connections == 12
            for connection in connections:
                connection.abort()

    run(test())


async def reset_at_once(request: H2Request) -> None:
    request.connection.reset_stream(request.stream, h2.errors.ErrorCodes.INTERNAL_ERROR)
    request.flush()


async def reset_in_the_middle(request: H2Request) -> None:
    request.head()
    request.data(STREAM[:47])
    await reset_at_once(request)


async def leave_in_the_middle(request: H2Request) -> None:
    request.head()
    request.data(STREAM[:47])
    request.writer.close()


async def leave_at_once(request: H2Request) -> None:
    request.writer.close()


async def talk_nonsense(request: H2Request) -> None:
    request.writer.write(b"\0\0\1" + b"\0" * 6 + b"x")  # a byte of data on stream 0, which carries none


@pytest.mark.parametrize(
    ("handle", "outcome", "words"),
    [
        (reset_at_once, Outcome.CONNECT_ERROR, "reset the request before it answered (INTERNAL_ERROR)"),
        (reset_in_the_middle, Outcome.STREAM_ERROR, "cut short: the server reset the stream (INTERNAL_ERROR)"),
        (leave_in_the_middle, Outcome.STREAM_ERROR, "cut short: the server closed the connection"),
        (leave_at_once, Outcome.CONNECT_ERROR, "closed the connection before it answered"),
        (talk_nonsense, Outcome.HTTP_ERROR, "the exchange is not HTTP"),
    ],
)
def test_what_goes_wrong_in_http2_is_one_clear_failure(handle: Handle, outcome: Outcome, words: str) -> None:
    async def test() -> None:
        server = H2Server(handle)
        async with server.serving() as url:
            connection = dialled(server, url).connection()
            for _ in range(2):
                answer = await ask(connection)
                assert (answer.outcome, answer.resent) == (outcome, False)
                assert words in (answer.error or "")

    run(test())


def test_a_kept_http2_connection_that_dies_unanswered_is_replaced_and_counted() -> None:
    count = 0

    async def handle(request: H2Request) -> None:
        nonlocal count
        count += 1
        await (leave_at_once if count == 2 else reply)(request)

    async def test() -> None:
        server = H2Server(handle)
        async with server.serving() as url:
            connection = dialled(server, url).connection()
            for resent in (False, True, False):
                answer = await ask(connection)
                assert (answer.outcome, answer.text, answer.resent) == (Outcome.OK, "a", resent)
            assert server.connections == 2
            connection.abort()

    run(test())


def test_a_server_that_says_farewell_gets_a_new_connection_for_the_next_request() -> None:
    async def handle(request: H2Request) -> None:
        await reply(request)
        request.connection.close_connection()
        request.flush()

    async def test() -> None:
        server = H2Server(handle)
        async with server.serving() as url:
            connection = dialled(server, url).connection()
            for _ in range(3):
                answer = await ask(connection)
                assert (answer.outcome, answer.text) == (Outcome.OK, "a")
                while connection.connected:
                    await asyncio.sleep(0.001)

    run(test())


def test_abort_closes_an_http2_connection() -> None:
    async def hold(request: H2Request) -> None:
        request.head()

    async def test() -> None:
        server = H2Server(hold)
        async with server.serving() as url:
            connection = dialled(server, url).connection()
            answer = Answer()
            exchange = asyncio.create_task(connection.exchange("id", b"{}", answer))
            while answer.t_headers_ns is None:
                await asyncio.sleep(0.001)
            answer.fail(Outcome.TIMEOUT, "too long", monotonic_ns())
            connection.abort()
            await exchange
            assert not connection.connected
            while server.closed == 0:
                await asyncio.sleep(0.001)

    run(test())
