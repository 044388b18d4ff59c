"""/mixes: create, read, change and archive a mix."""

from __future__ import annotations

import msgspec
import pytest
from jsonschema import Draft202012Validator

from campaigns.api import examples
from campaigns.api.urls import INPUTS
from campaigns.models import Mix, Scope
from campaigns.services.reproduce import reproduction_of
from tests.campaigns.api.program import Program, error_of
from tests.campaigns.builders import make_campaign, make_run
from tests.campaigns.services.builders import make_mix
from workers.loadgen.plan import TrafficClass, parse_plan

pytestmark = pytest.mark.django_db


def test_the_documented_example_makes_a_mix() -> None:
    program = Program(Scope.LAUNCH)
    response = program.post("/mixes", examples.MIX)
    assert response.status_code == 201, response.content
    made = response.json()
    assert {name: made[name] for name in examples.MIX} == examples.MIX
    assert program.get(response["Location"]).json() == made


# A value of each field of a class that the generator knows; a new one has to be added here.
A_CLASS = {
    "name": "talk",
    "weight": 2,
    "input_tokens": {"dist": "uniform", "min": 10, "max": 90},
    "output_tokens": 40,
    "turns": {"dist": "normal", "mean": 4, "sd": 1},
    "think_s": 1.5,
}


def test_a_class_takes_what_the_generator_does_and_all_of_it_reaches_the_generator() -> None:
    known = {field.name for field in msgspec.structs.fields(TrafficClass)}
    assert set(A_CLASS) == known - {"prompts"}
    assert set(INPUTS["TrafficClass"]["properties"]) == set(A_CLASS)
    made = Program(Scope.LAUNCH).post("/mixes", {"name": "m", "classes": [A_CLASS]})
    assert made.status_code == 201, made.content
    run = make_run(make_campaign(mix=Mix.objects.get(pk=made.json()["id"])))
    sent = reproduction_of(run).plan
    assert sent["mix"]["classes"] == [A_CLASS]
    assert msgspec.to_builtins(parse_plan(sent).mix.classes[0]) == msgspec.to_builtins(
        msgspec.convert(A_CLASS, TrafficClass)
    )


def test_a_file_of_prompts_is_refused_with_words() -> None:
    with_file = {"name": "m", "classes": [{"name": "a", "prompts": "/etc/passwd"}]}
    error = error_of(Program(Scope.LAUNCH).post("/mixes", with_file), 422)
    assert "not available" in error["fields"]["classes[0].prompts"][0]
    shown = Draft202012Validator({**INPUTS["MixInput"], "components": {"schemas": INPUTS}})
    assert shown.is_valid({"name": "m", "classes": [A_CLASS]}) and not shown.is_valid(with_file)


def test_a_class_without_a_weight_weighs_1_for_everyone() -> None:
    classes = [{"name": name, "input_tokens": 1, "output_tokens": 1} for name in ("a", "b")]
    made = Program(Scope.LAUNCH).post("/mixes", {"name": "m", "classes": classes}).json()
    assert [one["weight"] for one in made["classes"]] == [1, 1]
    run = make_run(make_campaign(mix=Mix.objects.get(pk=made["id"])))
    assert run.frozen_plan.mix.weights == {"a": 1, "b": 1}


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
    again = program.post(f"/mixes/{mix.pk}/unarchive")
    assert (again.status_code, again.json()["archived_at"]) == (200, None)
    assert len(program.get("/mixes").json()["items"]) == 1


def test_names_are_given_back_as_they_are() -> None:
    name = '<img src=x onerror=alert(1)> {{7*7}} "é" ＝1'
    response = Program(Scope.LAUNCH).post("/mixes", {**examples.MIX, "name": name})
    assert response.json()["name"] == name
    assert response["X-Content-Type-Options"] == "nosniff"
