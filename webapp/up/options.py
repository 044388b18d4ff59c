"""What `manage.py up` may be told."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

from webapp.environment import data_directory


@dataclass(frozen=True, slots=True)
class Options:
    demo: bool
    host: str
    port: int
    data: Path

    @property
    def base_url(self) -> str:
        host = "127.0.0.1" if self.host in ("0.0.0.0", "::") else self.host
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"


def parse(arguments: list[str]) -> Options:
    """Exits with 2 and a message when `arguments` are wrong."""
    parser = argparse.ArgumentParser(
        prog="manage.py up",
        description="Start Brimline: database, broker, worker, beat and web server, as one process tree. "
        "DATABASE_URL and REDIS_URL in the environment name servers of your own instead of the embedded ones.",
    )
    parser.add_argument("--demo", action="store_true", help="also a simulated engine, a demo user and a demo campaign")
    parser.add_argument("--bind", metavar="HOST:PORT", default="127.0.0.1:8000", help="default: %(default)s")
    parser.add_argument(
        "--data",
        metavar="DIR",
        type=Path,
        help="servers' files, keys and logs (default: BRIMLINE_DATA or var/)",
    )
    given = parser.parse_args(arguments)
    host, _, port = given.bind.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        parser.error(f"--bind takes HOST:PORT, for example 127.0.0.1:8080, not {given.bind!r}")
    return Options(given.demo, host.strip("[]"), int(port), (given.data or data_directory()).resolve())
