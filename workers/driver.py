"""The load generator as a subprocess: starts it on a plan, hands on the lines it prints, ends it, and brings back what
it measured. It knows nothing of runs and stages, and the plan's secrets leave it only towards the generator.
"""

from __future__ import annotations

import fcntl
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import orjson
import pyarrow as pa
from django.conf import settings

from campaigns.services.redaction import Redactor

POLL_S = 0.25
# On SIGTERM the generator closes its streams and writes its log in less than a second; a long log takes longer.
END_WITHIN_S = 5.0
STDERR_TAIL = 600
# The one name under which the generator finds the target's key.
KEY_VARIABLE = "BRIMLINE_TARGET_KEY"


# A folder holds a lock for as long as its driver lives, so that one whose worker was killed can be told by others.
FOLDER = "brimline-stage-"
LOCK = "lock"
# Between a folder and its lock lies a moment.
NEW_FOLDER_S = 60.0


class DriverFailed(Exception):
    """The generator ended without a measurement; the message says how and what it wrote last."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """`summary` as the generator wrote it; `arrow` the request log's file, byte for byte, of `rows` requests."""

    summary: dict[str, Any]
    arrow: bytes
    rows: int


class Driver:
    """`with Driver(plan, api_key) as driver:` a generator at work; when the block is left, it has ended."""

    def __init__(self, plan: Mapping[str, Any], api_key: str = "") -> None:
        self._folder = Path(tempfile.mkdtemp(prefix=FOLDER))
        self._lock = os.open(self._folder / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        self._out = self._folder / "out"
        self._plan = self._folder / "plan.json"
        self._redactor = Redactor([api_key, *plan["headers"].values()])
        self._rest = b""
        try:
            self._start(plan, api_key)
        except BaseException:
            self._remove_folder()
            raise

    def _start(self, plan: Mapping[str, Any], api_key: str) -> None:
        self._plan.touch(mode=0o600)
        self._plan.write_bytes(orjson.dumps({**plan, "api_key_env": KEY_VARIABLE if api_key else None}))
        with (self._folder / "stderr").open("wb") as stderr:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "workers.loadgen", self._plan, "--out", self._out, "--stop-with-parent"],
                cwd=settings.BASE_DIR,
                env=_environment(api_key),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=stderr,
                # A group of its own: its helpers end with it, and a Ctrl-C at the worker does not reach it.
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def lines(self) -> Iterator[dict[str, Any] | None]:
        """Each object that the generator prints, as it comes, and None every `POLL_S` between; ends with it."""
        assert self._process.stdout is not None
        pipe = self._process.stdout.fileno()
        while True:
            ready, _, _ = select.select([pipe], [], [], POLL_S)
            if not ready:
                yield None
                continue
            data = os.read(pipe, 65_536)
            if not data:
                return
            # The generator has read its plan before it speaks: its headers need not lie on the disk any longer.
            self._plan.unlink(missing_ok=True)
            yield from self._objects(data)

    def _objects(self, data: bytes) -> Iterator[dict[str, Any]]:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            try:
                value = orjson.loads(line)
            except orjson.JSONDecodeError:
                continue
            if isinstance(value, dict):
                yield value

    def stop(self) -> None:
        """Ask the generator to end now; what it has measured so far it still writes."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)

    def measurement(self) -> Measurement:
        """What was measured, once the generator has ended. Raises DriverFailed."""
        try:
            code = self._process.wait(END_WITHIN_S)
        except subprocess.TimeoutExpired:
            raise DriverFailed(f"The load generator did not end within {END_WITHIN_S:.0f} s") from None
        if code != 0:
            raise DriverFailed(f"The load generator {_ending(code)}{self._last_words()}")
        try:
            summary = orjson.loads((self._out / "summary.json").read_bytes())
            arrow = (self._out / "requests.arrow").read_bytes()
            with pa.ipc.open_file(pa.py_buffer(arrow)) as log:
                rows = sum(log.get_batch(index).num_rows for index in range(log.num_record_batches))
            return Measurement(summary, arrow, rows)
        except (OSError, orjson.JSONDecodeError, pa.ArrowInvalid) as error:
            raise DriverFailed(f"The load generator left no readable result: {error}{self._last_words()}") from None

    def _last_words(self) -> str:
        text = (self._folder / "stderr").read_text(errors="replace")[-STDERR_TAIL:].strip()
        return f"; it wrote: {self._redactor.text(text, longest=STDERR_TAIL)}" if text else ""

    def __enter__(self) -> Driver:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            self.stop()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(END_WITHIN_S)
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        finally:
            assert self._process.stdout is not None
            self._process.stdout.close()
            self._remove_folder()

    def _remove_folder(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)
        os.close(self._lock)


def remove_left_folders() -> None:
    """Remove the folders of drivers whose process was killed, with the request logs and plans in them."""
    for folder in Path(tempfile.gettempdir()).glob(f"{FOLDER}*"):
        with suppress(OSError):
            if time.time() - folder.stat().st_mtime < NEW_FOLDER_S:
                continue
            lock = os.open(folder / LOCK, os.O_RDWR)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)


def _environment(api_key: str) -> dict[str, str]:
    """This process's own, without what is none of the generator's business: the product's keys and addresses."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("BRIMLINE_") and name not in {"DATABASE_URL", "REDIS_URL"}
    }
    return kept | ({KEY_VARIABLE: api_key} if api_key else {})


def _ending(code: int) -> str:
    return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit status {code}"
