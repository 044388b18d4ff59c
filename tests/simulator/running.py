"""Starts the simulator as the program it is, on a free port."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import httpx
from prometheus_client.parser import text_string_to_metric_families

COMMAND = [sys.executable, "-m", "workers.simulator"]


@dataclass(frozen=True)
class Simulator:
    process: subprocess.Popen[str]
    url: str

    def post(self, path: str, **body: object) -> httpx.Response:
        return httpx.post(f"{self.url}{path}", json=body, timeout=30)

    def samples(self) -> dict[str, float]:
        """Every sample of the metrics page as `name` or, where there are more labels than vLLM's own, `name{a=b}`."""
        page = httpx.get(f"{self.url}/metrics", timeout=30)
        found = {}
        for family in text_string_to_metric_families(page.text):
            for sample in family.samples:
                extra = {key: value for key, value in sample.labels.items() if key not in ("model_name", "engine")}
                labels = ",".join(f"{key}={value}" for key, value in sorted(extra.items()))
                found[f"{sample.name}{{{labels}}}" if labels else sample.name] = sample.value
        return found


@contextmanager
def simulator(*arguments: str) -> Iterator[Simulator]:
    process = subprocess.Popen([*COMMAND, "--port", "0", *arguments], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        first = process.stdout.readline()
        assert first.startswith("listening on http://127.0.0.1:"), first
        yield Simulator(process, first.split()[-1])
    finally:
        process.terminate()
        process.wait(timeout=30)
        if process.stdout is not None:
            process.stdout.close()
