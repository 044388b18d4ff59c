"""Static files are collected when they changed, since hashing and compressing them takes seconds."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

from webapp.environment import ROOT


def collect(data: Path, run: Callable[[], None]) -> None:
    """Call `run` unless the files are those of the last call."""
    stamp = data / "static.stamp"
    now = _fingerprint([ROOT / "static", ROOT / "webapp" / "settings.py", ROOT / "requirements" / "base.txt"])
    if (data / "static" / "staticfiles.json").exists() and stamp.exists() and stamp.read_text() == now:
        return
    run()
    stamp.write_text(now)


def _fingerprint(places: list[Path]) -> str:
    digest = hashlib.sha256()
    for place in places:
        for file in sorted(place.rglob("*")) if place.is_dir() else [place]:
            if file.is_file():
                digest.update(f"{file.relative_to(ROOT)}\0".encode() + hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()
