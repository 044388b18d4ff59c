"""Runs the load generator as the program that it is, for tests."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from workers.loadgen.log import read_log


def plan_for(base_url: str, concurrency: int = 2, **changes: Any) -> dict[str, Any]:
    """A short stage of one class: 20 tokens in, 5 out."""
    return {
        "base_url": base_url,
        "model": "m",
        "load": {"kind": "closed", "concurrency": concurrency},
        "warmup_s": 0.3,
        "measure_s": 0.7,
        "drain_s": 10,
        "mix": {"classes": [{"name": "a", "input_tokens": 20, "output_tokens": 5}]},
    } | changes


@dataclass(frozen=True, slots=True)
class Ran:
    code: int
    events: list[dict[str, Any]]
    errors: str
    directory: Path

    @property
    def summary(self) -> dict[str, Any]:
        """As the file holds it; the last event says the same."""
        summary: dict[str, Any] = json.loads((self.directory / "summary.json").read_text())
        assert self.events[-1] == {"event": "summary"} | summary
        return summary

    @property
    def table(self) -> pa.Table:
        return read_log(self.directory / "requests.arrow")

    @property
    def rows(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self.table.to_pylist()
        return rows


class Program:
    """`start` it, then `finish`; or `run` both."""

    def __init__(self, plan: dict[str, Any], directory: Path, *options: str, **environment: str) -> None:
        self.directory = directory
        path = directory / "plan.json"
        path.write_text(json.dumps(plan))
        command = [sys.executable, "-m", "workers.loadgen", str(path), "--out", str(directory), *options]
        pipe = subprocess.PIPE
        env = os.environ | environment
        self.process = subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=env)

    def finish(self, limit_s: float = 60) -> Ran:
        try:
            output, errors = self.process.communicate(timeout=limit_s)
        finally:
            self.process.kill()
        return Ran(self.process.returncode, [json.loads(line) for line in output.splitlines()], errors, self.directory)


def run(plan: dict[str, Any], directory: Path, *options: str, **environment: str) -> Ran:
    return Program(plan, directory, *options, **environment).finish()
