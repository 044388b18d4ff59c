"""Brimline's version, from the one place that states it."""

from __future__ import annotations

import tomllib

from webapp.environment import ROOT

__version__: str = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
