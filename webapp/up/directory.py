"""The data directory: made, checked, and held by one `up` at a time; its `environment` file with addresses and keys."""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from cryptography.fernet import Fernet

from webapp.environment import stored_values
from webapp.up.errors import UpError

SECRET_KEY = "BRIMLINE_SECRET_KEY"
FIELD_KEYS = "BRIMLINE_FIELD_KEYS"


@contextmanager
def held(data: Path) -> Iterator[None]:
    """Make `data` and keep every other `up` out of it. Raises UpError."""
    try:
        (data / "logs").mkdir(parents=True, exist_ok=True)
        lock = os.open(data / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    except (FileExistsError, NotADirectoryError):
        raise UpError(f"The data directory {data} is not a directory. Choose another with --data.") from None
    except OSError as error:
        raise UpError(
            f"The data directory {data} cannot be used: {error.strerror}. Make it writable, or choose another with "
            "--data."
        ) from None
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.pread(lock, 20, 0).decode().strip() or "another process"
            raise UpError(
                f"Brimline is up already with the data directory {data} (process {holder}). "
                "Stop that one, or choose another directory with --data."
            ) from None
        os.ftruncate(lock, 0)
        os.pwrite(lock, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(lock)


def keys(data: Path, has_database: bool) -> dict[str, str]:
    """The secrets of this installation: the environment's, else the stored ones, else new ones on a first start.

    Raises UpError when a database exists but its keys are gone: new keys could not read what it holds.
    """
    known = stored_values(data)
    found = {name: os.environ.get(name) or known.get(name, "") for name in (SECRET_KEY, FIELD_KEYS)}
    if has_database and not found[FIELD_KEYS]:
        raise UpError(
            f"{data} holds a database, but the keys that read its secrets are gone from {data / 'environment'}. "
            f"Put that file back, or set {FIELD_KEYS} to the old keys."
        )
    return {
        SECRET_KEY: found[SECRET_KEY] or secrets.token_urlsafe(48),
        FIELD_KEYS: found[FIELD_KEYS] or Fernet.generate_key().decode(),
    }


def store(data: Path, values: Mapping[str, str]) -> None:
    """Write the `environment` file, readable by its owner only, whole or not at all."""
    new = data / "environment.new"
    new.unlink(missing_ok=True)
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.writelines(f"{name}={value}\n" for name, value in values.items())
    new.replace(data / "environment")
