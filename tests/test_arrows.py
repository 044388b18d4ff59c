"""The arrows of the architecture: who may import whom. Read from the source, so that an unused import counts too."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
OURS = ("campaigns", "workers", "webapp")
FRAMEWORKS = ("django", "celery", "ninja", "redis", "psycopg")

# Rooms that know nothing above or beside them.
PURE = ("campaigns.analysis", "workers.loadgen", "workers.collectors", "workers.simulator")
# What each room may import of ours, besides itself; the longest matching room counts.
ALLOWED = {
    "campaigns.models": (),
    "campaigns.services": (
        "campaigns.models",
        "campaigns.analysis",
        # Preflight reads answers and forms check mixes exactly as the generator does; these open no socket.
        "workers.loadgen.plan",
        "workers.loadgen.lengths",
        "workers.loadgen.endpoint",
        "workers.loadgen.answer",
        "workers.loadgen.sse",
        "workers.loadgen.payload",
        "webapp.version",
    ),
    "campaigns.pages": ("campaigns.models", "campaigns.services"),
    "campaigns.templatetags": ("campaigns.models", "campaigns.services", "campaigns.pages"),
    "campaigns.api": ("campaigns.models", "campaigns.services", "webapp.version"),
    # What a command prints for a person to type is the operator's, as the command is.
    "campaigns.management": ("campaigns.models", "campaigns.services", "webapp.commands"),
    "campaigns.migrations": ("campaigns.models",),
    "workers.heartbeat": ("campaigns.models", "webapp.version"),
    "workers": ("campaigns.models", "campaigns.services", "campaigns.analysis", "workers"),
    "webapp.urls": ("campaigns.api", "campaigns.pages", "webapp"),
    "webapp.health": ("campaigns.models",),
    "webapp": ("webapp",),
}


def modules() -> Iterator[tuple[str, Path]]:
    for package in OURS:
        for path in sorted((ROOT / package).rglob("*.py")):
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            yield name.removesuffix(".__init__"), path


def imports(path: Path) -> set[str]:
    """Absolute names, functions' own imports included; `from a import b` counts as a.b when that is a module."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            base = str(node.module)
            for alias in node.names:
                place = ROOT.joinpath(*base.split("."), alias.name)
                is_module = place.with_suffix(".py").exists() or place.is_dir()
                found.add(f"{base}.{alias.name}" if is_module else base)
    return found


def within(name: str, room: str) -> bool:
    return name == room or name.startswith(room + ".")


def room_of(name: str) -> str | None:
    rooms = [room for room in (*PURE, *ALLOWED) if within(name, room)]
    return max(rooms, key=len, default=None)


@pytest.mark.parametrize(("name", "path"), [pytest.param(*module, id=module[0]) for module in modules()])
def test_a_module_imports_only_what_its_room_may(name: str, path: Path) -> None:
    if name in ("campaigns", "campaigns.apps", "workers", "workers.celery"):
        return
    room = room_of(name)
    assert room is not None, f"{name} belongs to no room"
    allowed = (room, *ALLOWED.get(room, ()))
    for imported in imports(path):
        top = imported.split(".")[0]
        if top in OURS:
            assert any(within(imported, one) for one in allowed), f"{name} may not import {imported}"
        elif room in PURE:
            assert top not in FRAMEWORKS, f"{name} may not import {imported}"


def test_the_rooms_are_where_the_rules_say() -> None:
    names = {name for name, _ in modules()}
    for room in (*PURE, *ALLOWED):
        if room not in ("workers.collectors",):
            assert any(within(name, room) for name in names), f"{room} does not exist"
