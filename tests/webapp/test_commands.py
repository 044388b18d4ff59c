"""Commands that are printed for a person run as they are, wherever the data directory is."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from webapp.commands import manage_command
from webapp.environment import DEFAULT_DATA, ROOT


@pytest.mark.parametrize("name", ["plain", "it's 100% «two words»"])
@pytest.mark.parametrize("here", [ROOT, Path("/")])
def test_a_printed_command_names_what_it_needs(
    name: str, here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / name
    data.mkdir()
    (data / "environment").write_text("DATABASE_URL=postgresql://there/x\n")
    monkeypatch.setenv("BRIMLINE_DATA", str(data))
    monkeypatch.chdir(here)
    command = manage_command(
        "shell", "-c", "from django.conf import settings as s; print(s.DATABASES['default']['HOST'])"
    )
    for variable in ("BRIMLINE_DATA", "DATABASE_URL"):
        monkeypatch.delenv(variable, raising=False)
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=60)
    assert done.stdout.split()[-1:] == ["there"], done.stderr


def test_in_the_usual_place_there_is_no_more_than_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BRIMLINE_DATA", str(DEFAULT_DATA))
    monkeypatch.setattr("sys.executable", str(ROOT / ".venv/bin/python"))
    monkeypatch.chdir(ROOT)
    assert manage_command("token", "--list") == ".venv/bin/python manage.py token --list"
