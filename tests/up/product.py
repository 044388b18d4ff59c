"""A whole product started as a person would start it, for tests to poke at."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import psutil

from webapp.environment import ROOT
from webapp.up.embedded import free_port

LIMIT_S = 90.0
OURS = ("DATABASE_URL", "REDIS_URL", "BRIMLINE_")


@dataclass
class Product:
    """`manage.py up` on a data directory. What it writes to the terminal is in `output`."""

    data: Path
    output: Path
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self, *arguments: str) -> Product:
        command = [sys.executable, str(ROOT / "manage.py"), "up", "--bind", f"127.0.0.1:{self.port}"]
        command += ["--data", str(self.data), *arguments]
        with self.output.open("ab") as out:
            self.process = subprocess.Popen(
                command, stdout=out, stderr=subprocess.STDOUT, env=clean_environment(), start_new_session=True
            )
        return self

    def text(self) -> str:
        return self.output.read_text(errors="replace")

    def wait_for(self, words: str) -> Product:
        """Until the terminal shows `words`; fails with all of it when the process ends before."""
        assert self.process is not None
        deadline = time.monotonic() + LIMIT_S
        while words not in self.text():
            assert self.process.poll() is None and time.monotonic() < deadline, self.text()
            time.sleep(0.05)
        return self

    def end(self, number: int = signal.SIGINT) -> int:
        """Send a signal, and wait for the exit status."""
        assert self.process is not None
        self.process.send_signal(number)
        return self.process.wait(LIMIT_S)

    def outcome(self) -> tuple[int, str]:
        """Exit status and text of a start that ends by itself."""
        assert self.process is not None
        return self.process.wait(LIMIT_S), self.text()

    def processes(self) -> list[psutil.Process]:
        """Every process that belongs to this product, its servers' daemons included."""
        mark = str(self.data)
        found = []
        for process in psutil.process_iter(["pid", "cmdline", "environ"]):
            words = " ".join(process.info["cmdline"] or [])
            if mark in words or (process.info["environ"] or {}).get("BRIMLINE_DATA") == mark:
                found.append(process)
        return found

    def process_children(self) -> list[psutil.Process]:
        """What `up` itself has started."""
        assert self.process is not None
        return psutil.Process(self.process.pid).children()

    def until_healthy(self) -> None:
        """Once a part is missed it takes a moment until the product is whole again."""
        deadline = time.monotonic() + LIMIT_S
        while not self.healthy():
            assert time.monotonic() < deadline, self.text()
            time.sleep(0.1)

    def healthy(self) -> bool:
        try:
            return httpx.get(f"{self.url}/healthz", trust_env=False).status_code == 200
        except httpx.TransportError:
            return False

    def manage(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Another `manage.py` command, told the data directory and nothing else."""
        environment = clean_environment() | {"BRIMLINE_DATA": str(self.data)}
        command = [sys.executable, str(ROOT / "manage.py"), *arguments]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=LIMIT_S)


def clean_environment() -> dict[str, str]:
    """Ours without what tests set: a person's shell."""
    return {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
