"""An early pytest plugin (`-p tests.services`): one PostgreSQL and one Valkey for the whole session.

It has to run before Django's settings are read. Under xdist the controller starts the servers and the workers inherit
their addresses; each worker has its own test database (pytest-django) and its own broker database. `DATABASE_URL` and
`REDIS_URL` that are set already name servers to use instead.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import subprocess
import tempfile
from contextlib import ExitStack
from pathlib import Path

import redis
from cryptography.fernet import Fernet
from redis.backoff import ConstantBackoff
from redis.retry import Retry

from webapp.up import embedded

_running = ExitStack()


def _start() -> None:
    data = Path(tempfile.mkdtemp(prefix="brimline-tests-"))
    _running.callback(shutil.rmtree, data, ignore_errors=True)
    os.environ.setdefault("BRIMLINE_DATA", str(data))
    os.environ.setdefault("BRIMLINE_SECRET_KEY", "for-tests-only")
    os.environ.setdefault("BRIMLINE_FIELD_KEYS", Fernet.generate_key().decode())
    if "DATABASE_URL" not in os.environ:
        os.environ["DATABASE_URL"] = _running.enter_context(embedded.postgres(data))
    if "REDIS_URL" not in os.environ:
        command, url = embedded.valkey_command(data)
        server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        _running.callback(server.wait)
        _running.callback(server.terminate)
        client = redis.Redis.from_url(url, retry=Retry(ConstantBackoff(0.05), 200), retry_on_error=[ConnectionError])
        client.ping()
        client.close()
        os.environ["REDIS_URL"] = url


worker = os.environ.get("PYTEST_XDIST_WORKER")
if worker is None:
    atexit.register(_running.close)
    _start()
else:
    number = re.sub(r"\D", "", worker)
    os.environ["REDIS_URL"] = re.sub(r"/\d*$", f"/{number}", os.environ["REDIS_URL"])
