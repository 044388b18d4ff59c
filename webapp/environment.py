"""The one reader of the environment: every setting that an operator can change is documented where it is read.

A value comes from the process's environment, else from `environment` in the data directory (written by `manage.py up`,
so that every other command reaches the product that is up), else from the default given here.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from psycopg import ProgrammingError, conninfo

ROOT = Path(__file__).resolve().parent.parent
DEFAULT_DATA = ROOT / "var"


def data_directory() -> Path:
    """`BRIMLINE_DATA`: the embedded servers' files, keys and logs. Default: `var/` beside manage.py."""
    return Path(os.environ.get("BRIMLINE_DATA") or DEFAULT_DATA).resolve()


def stored_values(directory: Path) -> dict[str, str]:
    """`NAME=value` lines that `manage.py up` left in `directory`; empty when it never ran there."""
    try:
        lines = (directory / "environment").read_text().splitlines()
    except (FileNotFoundError, NotADirectoryError):
        return {}
    return dict(line.split("=", 1) for line in lines if "=" in line)


@cache
def _stored() -> Mapping[str, str]:
    return stored_values(data_directory())


def value(name: str, default: str = "") -> str:
    return os.environ.get(name) or _stored().get(name) or default


def flag(name: str, default: bool = False) -> bool:
    raw = value(name, "1" if default else "0").lower()
    if raw in {"1", "true", "yes", "on"}:
        return True
    if raw in {"0", "false", "no", "off"}:
        return False
    raise ImproperlyConfigured(f"{name} must be 1 or 0, not {raw!r}")


def words(name: str, default: str = "") -> list[str]:
    """A comma-separated list."""
    return [word.strip() for word in value(name, default).split(",") if word.strip()]


@dataclass(frozen=True, slots=True)
class Database:
    """PostgreSQL's address as Django wants it."""

    name: str
    user: str
    password: str
    host: str
    port: str
    options: dict[str, Any]


def database(url: str) -> Database:
    """Parse a libpq connection URI or keyword string (`DATABASE_URL`).

    Raises ImproperlyConfigured, without repeating the URL since it may hold a password.
    """
    if not url:
        raise ImproperlyConfigured(
            "DATABASE_URL is not set and no product is up here: start it with `python manage.py up`, or set "
            "DATABASE_URL to a PostgreSQL address such as postgresql://user:password@host:5432/brimline."
        )
    try:
        parts = {key: str(part) for key, part in conninfo.conninfo_to_dict(url).items() if part is not None}
    except ProgrammingError:
        raise ImproperlyConfigured(
            "DATABASE_URL is not a PostgreSQL address; write it as postgresql://user:password@host:5432/name."
        ) from None
    return Database(
        name=parts.pop("dbname", "postgres"),
        user=parts.pop("user", ""),
        password=parts.pop("password", ""),
        host=parts.pop("host", ""),
        port=parts.pop("port", ""),
        options=dict(parts),
    )
