"""The course of `manage.py up`: check, start in order, say where it is, watch, and end everything together."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import FrameType

from webapp.commands import manage_command
from webapp.environment import ROOT, stored_values
from webapp.up import demo, directory, embedded, postgres, say, static
from webapp.up.children import Children
from webapp.up.errors import UpError, tail
from webapp.up.options import Options, parse

READY_LIMIT_S = 90.0
POLL_S = 0.25
WORKER_PROCESSES = 4


class Stop(BaseException):
    """A signal asked to stop: not an error, and nothing else may catch it."""


def main(arguments: list[str]) -> int:
    options = parse(arguments)
    os.environ["BRIMLINE_DATA"] = str(options.data)
    say.line(f"Brimline, data in {options.data}")
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _stop)
    try:
        _up(options)
    except Stop:
        say.line("Stopped.")
        return 0
    except UpError as error:
        say.line(f"\n{error}")
        return 1
    return 0


def _stop(number: int, frame: FrameType | None) -> None:
    # Once: what follows is an orderly end, which further signals must not break off.
    for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(one, signal.SIG_IGN)
    say.line("\nStopping …")
    raise Stop


def _up(options: Options) -> None:
    """Until a signal raises Stop. Raises UpError."""
    with ExitStack() as stack:
        stack.enter_context(directory.held(options.data))
        _check_port(options.host, options.port)
        known = stored_values(options.data)
        values = directory.keys(options.data, postgres.has_database(options.data))
        values["BRIMLINE_BASE_URL"] = options.base_url
        values[demo.ENGINE_PORT] = known.get(demo.ENGINE_PORT) or str(embedded.free_port())

        children = Children(options.data / "logs", os.environ)
        if url := os.environ.get("DATABASE_URL"):
            say.line("  · PostgreSQL as DATABASE_URL says")
            stack.callback(children.stop)
        else:
            with say.step("PostgreSQL"):
                server = stack.enter_context(postgres.prepared(options.data))
                stack.callback(children.stop)
                url = _start_database(children, server)
        values["DATABASE_URL"] = url

        if url := os.environ.get("REDIS_URL"):
            say.line("  · Redis as REDIS_URL says")
        else:
            with say.step("Valkey"):
                command, url = embedded.valkey_command(options.data)
                children.start("broker", command, is_server=True)
        values["REDIS_URL"] = url
        # Kept whatever happens next: without its keys a database is of no use.
        directory.store(options.data, values)
        children.environment |= values | {"PYTHONUNBUFFERED": "1"}

        with say.step("Database tables"):
            _manage(children, "migrate", "--noinput", "--verbosity", "0")
        with say.step("Static files"):
            static.collect(options.data, lambda: _manage(children, "collectstatic", "--noinput", "--verbosity", "0"))
        with say.step("Worker, beat and web server"):
            _start(children, options)
            _await_health(children, options)
        if options.demo:
            _demo(children, options, int(values[demo.ENGINE_PORT]))
        else:
            say.line(f"\nNo user yet? Make one: {manage_command('member', 'NAME', '--role', 'admin', '--create')}")
        say.line(f"\nReady: {options.base_url}   (Ctrl-C stops everything)")
        while True:
            children.check()
            time.sleep(POLL_S)


def _check_port(host: str, port: int) -> None:
    """Before anything starts. Raises UpError."""
    try:
        with socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET):
            pass
    except socket.gaierror:
        raise UpError(f"{host} is not an address of this machine. Choose another with --bind HOST:PORT.") from None
    except OSError as error:
        raise UpError(
            f"Cannot listen on {host}:{port}: {os.strerror(error.errno or 0)}. Stop what uses that port, or choose "
            f"another with --bind {host}:PORT."
        ) from None


def _manage(children: Children, *arguments: str) -> None:
    """Run a management command to its end. Raises UpError with what it wrote."""
    command = [sys.executable, str(ROOT / "manage.py"), *arguments]
    done = subprocess.run(command, env=children.environment, capture_output=True, text=True, start_new_session=True)
    if done.returncode:
        wrote = "".join(f"\n    {one}" for one in (done.stdout + done.stderr).strip().splitlines()[-15:])
        raise UpError(f"`manage.py {arguments[0]}` failed:{wrote}")


def _start_database(children: Children, server: postgres.Server) -> str:
    """Its address, once it answers. Raises UpError."""
    child = children.start("database", server.command, user=server.user, stop_signal=server.stop_signal, is_server=True)
    if not postgres.await_ready(server, child.fallen):
        raise embedded.does_not_start(server, child.log)
    return server.url


def _start(children: Children, options: Options) -> None:
    python = [sys.executable, "-m"]
    queues = f"brimline,host.{socket.gethostname()}"
    level = ["--loglevel", "INFO"]
    worker = [*python, "celery", "-A", "webapp", "worker", "-c", str(WORKER_PROCESSES), "-Q", queues, *level]
    # One data directory, one worker name: two products on a machine do not take each other's place.
    name = f"{options.port}@%h"
    children.start("worker", [*worker, "-n", name])
    schedule = str(options.data / "beat-schedule")
    children.start("beat", [*python, "celery", "-A", "webapp", "beat", "-s", schedule, "--pidfile=", *level])
    web = [*python, "uvicorn", "webapp.asgi:application", "--host", options.host, "--port", str(options.port)]
    children.start("web", [*web, "--no-access-log", "--timeout-graceful-shutdown", "3"])


def _await_health(children: Children, options: Options) -> None:
    """Raises UpError with what is missing."""
    missing = "the web server does not answer"
    deadline = time.monotonic() + READY_LIMIT_S
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    while time.monotonic() < deadline:
        children.check()
        try:
            with opener.open(f"{options.base_url}/healthz", timeout=5):
                return
        except urllib.error.HTTPError as error:
            missing = error.read(2000).decode(errors="replace")
        except OSError:
            pass
        time.sleep(POLL_S)
    logs = options.data / "logs"
    raise UpError(
        f"Brimline is not healthy after {READY_LIMIT_S:.0f} s: {missing}\nThe logs are in {logs}; "
        f"the worker's ends with:{tail(logs / 'worker.log')}"
    )


def _demo(children: Children, options: Options, port: int) -> None:
    with say.step("Simulated engine"):
        engine_url = demo.start_engine(children, port)
    say.line()
    command = [sys.executable, str(ROOT / "manage.py"), "demo"]
    command += ["--engine-url", engine_url, "--base-url", options.base_url]
    _run_attached(children, command, ROOT)


def _run_attached(children: Children, command: list[str], directory: Path) -> None:
    """Its output is ours; the children are watched meanwhile, and it does not outlive us."""
    process = subprocess.Popen(command, env=children.environment, cwd=directory, start_new_session=True)
    try:
        _until(lambda: process.poll() is not None, children)
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait()
    if process.returncode:
        say.line("The demo campaign did not finish; the product runs all the same.")


def _until(reached: Callable[[], bool], children: Children) -> None:
    while not reached():
        children.check()
        time.sleep(POLL_S)
