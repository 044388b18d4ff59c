"""The simulated engine of `manage.py up --demo`."""

from __future__ import annotations

import socket
import sys
import time

from webapp.up.children import Children
from webapp.up.embedded import free_port
from webapp.up.errors import UpError, tail

# In the `environment` file: the same port at every start, so that the demo target stays valid.
ENGINE_PORT = "BRIMLINE_DEMO_ENGINE_PORT"
START_LIMIT_S = 30.0
# Twice as fast as its model: seconds then hold enough requests, and two cores still keep time.
TIME_SCALE = "2"


def start_engine(children: Children, port: int) -> str:
    """Start it on `port`, or on another when that is taken; its base URL. Raises UpError."""
    if _answers(port):
        port = free_port()
    command = [sys.executable, "-m", "workers.simulator", "--scenario", "healthy", "--port", str(port)]
    child = children.start("engine", [*command, "--time-scale", TIME_SCALE, "--stop-with-parent"])
    deadline = time.monotonic() + START_LIMIT_S
    while not _answers(port):
        children.check()
        if time.monotonic() > deadline:
            raise UpError(f"The simulated engine does not answer. Its log, {child.log}, ends with:{tail(child.log)}")
        time.sleep(0.1)
    return f"http://127.0.0.1:{port}/v1"


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0
