"""Settings come from the environment, else from what `up` left behind; bad ones say what to do and show no secret."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from webapp import environment
from webapp.environment import ROOT


def run(command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    base = {
        name: value for name, value in os.environ.items() if not name.startswith(("BRIMLINE_", "DATABASE", "REDIS"))
    }
    return subprocess.run(
        [sys.executable, "-c", command], cwd=ROOT, env={**base, **variables}, capture_output=True, text=True, timeout=60
    )


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("postgresql://ann:p%40ss@db:5433/bench", ("bench", "ann", "p@ss", "db", "5433")),
        ("postgresql://postgres:@/postgres?host=/run/x", ("postgres", "postgres", "", "/run/x", "")),
        ("host=db dbname=bench user=ann", ("bench", "ann", "", "db", "")),
    ],
)
def test_a_database_address_is_read(url: str, expected: tuple[str, ...]) -> None:
    database = environment.database(url)
    assert (database.name, database.user, database.password, database.host, database.port) == expected


def test_options_of_an_address_are_kept() -> None:
    assert environment.database("postgresql://db/x?sslmode=require").options == {"sslmode": "require"}


@pytest.mark.parametrize("url", ["", "mysql://ann:hidden@db/x", "postgresql://ann:hidden@[db/x"])
def test_a_bad_database_address_says_what_to_write_and_hides_the_password(url: str) -> None:
    with pytest.raises(ImproperlyConfigured, match="postgresql://user") as caught:
        environment.database(url)
    assert "hidden" not in str(caught.value)


@pytest.mark.parametrize(("raw", "expected"), [("1", True), ("no", False), ("True", True)])
def test_flags(monkeypatch: pytest.MonkeyPatch, raw: str, expected: bool) -> None:
    monkeypatch.setenv("BRIMLINE_X", raw)
    assert environment.flag("BRIMLINE_X") is expected


def test_a_flag_that_is_neither_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BRIMLINE_X", "perhaps")
    with pytest.raises(ImproperlyConfigured, match="BRIMLINE_X must be 1 or 0"):
        environment.flag("BRIMLINE_X")


def test_what_up_stored_serves_other_commands_and_the_environment_wins(tmp_path: Path) -> None:
    (tmp_path / "environment").write_text("DATABASE_URL=postgresql://stored/x\nREDIS_URL=redis://stored:1/0\n")
    command = "from webapp import settings; print(settings.DATABASES['default']['HOST'], settings.REDIS_URL)"
    told = run(command, BRIMLINE_DATA=str(tmp_path), REDIS_URL="redis://given:1/0")
    assert told.stdout.split() == ["stored", "redis://given:1/0"], told.stderr


@pytest.mark.parametrize("missing", ["BRIMLINE_SECRET_KEY", "BRIMLINE_FIELD_KEYS"])
def test_the_web_server_does_not_start_without_its_keys(tmp_path: Path, missing: str) -> None:
    variables = {
        "DATABASE_URL": "postgresql://x/x",
        "BRIMLINE_DATA": str(tmp_path),
        "BRIMLINE_SECRET_KEY": "s",
        "BRIMLINE_FIELD_KEYS": "k",
    }
    del variables[missing]
    told = run("import webapp.asgi", **variables)
    assert told.returncode == 1 and f"{missing} is not set" in told.stderr
