"""Receive times of the kernel, on real sockets."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from time import monotonic_ns, sleep, time_ns
from typing import Any

import pytest
import uvloop

from workers.loadgen.answer import Answer, Outcome
from workers.loadgen.kernel_line import SO_TIMESTAMPNS, SUPPORTED, KernelLine
from workers.loadgen.poller import Poller

pytestmark = pytest.mark.skipif(not SUPPORTED, reason="the kernel's receive times are a thing of Linux")

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"


def chunk(text: str) -> bytes:
    data = b'data: {"choices":[{"index":0,"delta":{"content":"%s"}}]}\n\n' % text.encode()
    return b"%x\r\n%s\r\n" % (len(data), data)


DONE = b"e\r\ndata: [DONE]\n\n\r\n" + END


class Server:
    """One listening socket, driven by the test from a thread of its own."""

    def __init__(self) -> None:
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self.listening.getsockname()[1]
        self.sent_ns: list[int] = []

    def accept(self) -> socket.socket:
        line, _ = self.listening.accept()
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        line.recv(65536)
        return line

    def send(self, line: socket.socket, data: bytes) -> None:
        self.sent_ns.append(monotonic_ns())
        line.sendall(data)


def run(test: Any) -> None:
    async def limited() -> None:
        async with asyncio.timeout(30):
            await test

    uvloop.run(limited())


def test_an_event_has_the_time_it_came_however_late_it_is_read() -> None:
    server, blocked, sent = Server(), threading.Event(), threading.Event()

    def serve() -> None:
        line = server.accept()
        server.send(line, HEAD + chunk("a"))
        blocked.wait(10)
        server.send(line, chunk("b"))
        sent.set()
        sleep(0.05)
        server.send(line, DONE)

    async def test() -> None:
        thread = threading.Thread(target=serve)
        thread.start()
        poller = Poller(asyncio.get_running_loop())
        line = await KernelLine.connect("127.0.0.1", server.port, poller)
        answer = Answer()
        asking = asyncio.create_task(line.exchange(b"GET", answer))
        while not answer.arrivals_ns:
            await asyncio.sleep(0)
        # This process is busy with something else while the event comes.
        blocked.set()
        sent.wait(10)
        sleep(0.02)
        free_ns = monotonic_ns()
        sleep(0.02)
        await asking
        assert answer.outcome is Outcome.OK
        assert server.sent_ns[1] <= answer.arrivals_ns[1] + 1_000_000  # the two clocks are read a moment apart
        assert answer.arrivals_ns[1] < free_ns
        receiving = poller.receiving()
        assert (receiving.unstamped, receiving.longest_ns >= 20_000_000) == (0, True)
        assert sum(receiving.delays.values()) >= 3
        assert poller.receiving().delays == {}
        thread.join()
        line.abort()

    run(test())


def test_without_a_stamp_the_time_of_reading_is_used_and_counted() -> None:
    server = Server()

    def serve() -> None:
        server.send(server.accept(), HEAD + chunk("a") + DONE)

    async def test() -> None:
        thread = threading.Thread(target=serve)
        thread.start()
        poller = Poller(asyncio.get_running_loop())
        line = await KernelLine.connect("127.0.0.1", server.port, poller)
        line._socket.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 0)
        answer, before_ns = Answer(), monotonic_ns()
        await line.exchange(b"GET", answer)
        assert answer.outcome is Outcome.OK
        assert before_ns < answer.arrivals_ns[0] <= monotonic_ns()
        assert poller.receiving().unstamped >= 1
        thread.join()
        line.abort()

    run(test())


@pytest.mark.parametrize("off_s", [-3600, 3600])
def test_a_clock_that_was_set_meanwhile_is_not_believed(off_s: int) -> None:
    async def test() -> None:
        poller = Poller(asyncio.get_running_loop())
        poller._round()
        before_ns = monotonic_ns()
        stamp = struct.pack("@qq", time_ns() // 1_000_000_000 + off_s, 0)
        stamp_ns = poller.stamp_ns([(socket.SOL_SOCKET, SO_TIMESTAMPNS, stamp)])
        assert abs(stamp_ns - before_ns) < 3_600_000_000_000 // 2
        assert poller.receiving().unstamped == 1

    run(test())


@pytest.mark.parametrize("lines", [1, 40])
def test_many_lines_are_read_in_rounds_and_nothing_is_lost(lines: int) -> None:
    server = Server()
    events = 30

    def serve() -> None:
        ends = [server.accept() for _ in range(lines)]
        for end in ends:
            end.sendall(HEAD)
        for number in range(events):
            for end in ends:
                end.sendall(chunk(f"t{number}"))
        for end in ends:
            end.sendall(DONE)

    async def test() -> None:
        thread = threading.Thread(target=serve)
        thread.start()
        poller = Poller(asyncio.get_running_loop())
        made = [await KernelLine.connect("127.0.0.1", server.port, poller) for _ in range(lines)]
        answers = [Answer() for _ in made]
        await asyncio.gather(*(line.exchange(b"GET", answer) for line, answer in zip(made, answers, strict=True)))
        for answer in answers:
            assert (answer.outcome, answer.output_events) == (Outcome.OK, events)
            assert list(answer.arrivals_ns) == sorted(answer.arrivals_ns)
        thread.join()
        for line in made:
            line.abort()

    run(test())
