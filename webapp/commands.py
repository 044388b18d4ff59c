"""Commands as a person can paste them into a terminal: with the interpreter and the data directory that are in use."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from webapp.environment import DEFAULT_DATA, ROOT, data_directory


def manage_command(*arguments: str) -> str:
    """`manage.py` with these arguments, as it is started from the present directory."""
    data = data_directory()
    where = "" if data == DEFAULT_DATA else f"BRIMLINE_DATA={shlex.quote(str(data))} "
    return where + shlex.join([_from_here(Path(sys.executable)), _from_here(ROOT / "manage.py"), *arguments])


def _from_here(path: Path) -> str:
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)
