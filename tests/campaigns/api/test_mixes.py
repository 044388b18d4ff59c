"""/mixes: create, read, change and archive a mix."""

from __future__ import annotations

import pytest

from campaigns.api import examples
from campaigns.models import Scope
from tests.campaigns.api.program import Program, error_of
from tests.campaigns.services.builders import make_mix

pytestmark = pytest.mark.django_db


def test_the_documented_example_makes_a_mix() -> None:
    program = Program(Scope.LAUNCH)
    response = program.post("/mixes", examples.MIX)
    assert response.status_code == 201, response.content
    made = response.json()
    assert {name: made[name] for name in examples.MIX} == examples.MIX
    assert program.get(response["Location"]).json() == made


def test_an_unknown_field_is_named_with_the_known_ones() -> None:
    error = error_of(Program(Scope.LAUNCH).post("/mixes", {**examples.MIX, "clases": []}), 422)
    assert list(error["fields"]) == ["clases"]
    assert "classes" in error["message"]


def test_a_wrong_type_is_named() -> None:
    error = error_of(Program(Scope.LAUNCH).post("/mixes", {"name": 3, "classes": [1]}), 422)
    assert set(error["fields"]) == {"name", "classes[0]"}


def test_a_mix_is_changed_in_part_and_archived() -> None:
    mix = make_mix()
    program = Program(Scope.ADMIN)
    changed = program.patch(f"/mixes/{mix.pk}", examples.MIX_CHANGES)
    assert changed.status_code == 200, changed.content
    assert changed.json()["shared_prefix_tokens"] == 256 and changed.json()["name"] == mix.name
    assert program.delete(f"/mixes/{mix.pk}").status_code == 204
    assert program.get("/mixes").json()["items"] == []
    error_of(program.patch(f"/mixes/{mix.pk}", examples.MIX_CHANGES), 409)


def test_names_are_given_back_as_they_are() -> None:
    name = '<img src=x onerror=alert(1)> {{7*7}} "é" ＝1'
    response = Program(Scope.LAUNCH).post("/mixes", {**examples.MIX, "name": name})
    assert response.json()["name"] == name
    assert response["X-Content-Type-Options"] == "nosniff"
