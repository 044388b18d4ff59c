"""Mixes are checked by the load generator's own rules; the presets pass them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from campaigns.services.errors import Conflict, InvalidInput
from campaigns.services.inputs import MixInput
from campaigns.services.mixes import PRESETS, archive_mix, create_mix, describe_mix, update_mix
from tests.campaigns.services.builders import make_mix, make_user, mix_input

pytestmark = pytest.mark.django_db


def one(**changes: Any) -> dict[str, Any]:
    return {"name": "a", "weight": 1, "input_tokens": 10, "output_tokens": 20, **changes}


@pytest.mark.parametrize("preset", PRESETS, ids=lambda preset: preset.name)
def test_a_preset_is_a_valid_mix(preset: MixInput) -> None:
    shape = describe_mix(create_mix(make_user(), preset))
    assert shape["classes"] == preset.classes
    assert json.dumps(shape)


def test_the_first_preset_is_the_teams_usual_mix() -> None:
    classes = PRESETS[0].classes
    assert [(c["weight"], c["input_tokens"], c["output_tokens"]) for c in classes] == [
        (3, 50, 200),
        (4, 500, 500),
        (3, 2000, 800),
    ]


@pytest.mark.parametrize(
    ("classes", "word"),
    [
        ([], "class"),
        ([one(), one()], "a"),
        ([one(name="")], "name"),
        ([one(weight=0)], "weight must be a number above 0, to 1000000, not 0"),
        ([one(weight=1e7)], "weight must be a number above 0, to 1000000, not 10000000.0"),
        ([one(weight=-1)], "weight"),
        ([one(output_tokens=0)], "output_tokens"),
        ([one(input_tokens={"dist": "cauchy"})], "cauchy"),
        ([one(input_tokens={"dist": "uniform", "min": 9, "max": 3})], "min"),
        ([one(inputs=3)], "inputs"),
        ([{"name": "a", "weight": 1}], "tokens"),
        ([one(name="x" * 121)], "120"),
        ([one(name="a\x00")], "control"),
        ([{"name": "a", "weight": 1, "prompts": "/etc/passwd"}], "not available"),
    ],
)
def test_a_bad_class_is_refused_with_what_is_wrong(classes: list[dict[str, Any]], word: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        create_mix(make_user(), mix_input(classes=classes))
    assert "classes" in next(iter(caught.value.fields))
    assert word in caught.value.message


def test_a_negative_prefix_is_refused() -> None:
    with pytest.raises(InvalidInput) as caught:
        make_mix(shared_prefix_tokens=-1)
    assert list(caught.value.fields) == ["shared_prefix_tokens"]


def test_a_name_is_taken_until_its_mix_is_archived() -> None:
    mix = make_mix()
    with pytest.raises(InvalidInput, match="taken"):
        make_mix()
    archive_mix(mix)
    assert make_mix().pk != mix.pk
    with pytest.raises(Conflict, match="archived"):
        update_mix(mix, mix_input(name="back"))


def test_an_update_replaces_the_classes() -> None:
    mix = update_mix(make_mix(), mix_input(classes=[one(name="b")], shared_prefix_tokens=64))
    mix.refresh_from_db()
    assert (mix.classes[0]["name"], mix.shared_prefix_tokens) == ("b", 64)
