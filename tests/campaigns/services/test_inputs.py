"""Raw data becomes a typed input, or an error that names every bad field."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from campaigns.services.errors import InvalidInput
from campaigns.services.inputs import CampaignInput, LaunchInput, TargetInput, decode

ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=8,
)


def test_defaults_are_the_documented_ones() -> None:
    data = decode(CampaignInput, b'{"name": "c", "target": 1, "mix": 2}')
    assert data.stages == [1, 5, 10, 20, 30, 50]
    assert (data.stage_s, data.warmup_s, data.baseline_s, data.repeats, data.load) == (300, 30, None, 1, "closed")
    assert [(one.metric, one.stat, one.max_degradation_pct) for one in data.criteria] == [
        ("ttft_ms", "p50", 50),
        ("tpot_ms", "p50", 50),
    ]


def test_every_bad_field_is_named_at_once() -> None:
    with pytest.raises(InvalidInput) as caught:
        decode(CampaignInput, {"target": "one", "mix": 2, "stages": [1, "five"], "speed": 3, "refine": {"on": True}})
    fields = caught.value.fields
    assert fields["name"] == ["is required"]
    assert fields["target"] == ["expected `int`, got `str`"]
    assert "stages[1]" in fields
    assert "is not known here" in fields["speed"][0]
    assert "unknown field `on`" in fields["refine"][0]
    assert all(field in caught.value.message for field in fields)


def test_a_nested_field_is_named_by_its_place() -> None:
    with pytest.raises(InvalidInput) as caught:
        decode(CampaignInput, {"name": "c", "target": 1, "mix": 2, "criteria": [{"metric": "ttft_ms", "stat": 50}]})
    assert list(caught.value.fields) == ["criteria[0].stat"]


@pytest.mark.parametrize("raw", [b"", b"[]", b"{", b"\xff", "null", "3"])
def test_what_is_no_object_is_refused(raw: bytes | str) -> None:
    with pytest.raises(InvalidInput, match="JSON"):
        decode(LaunchInput, raw)


# On a busy machine the first draw is slow.
@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.dictionaries(st.sampled_from(["name", "base_url", "model", "api_key", "headers", "metrics", "x"]), ANY_JSON))
def test_anything_is_a_target_input_or_an_error_with_fields(raw: dict[str, Any]) -> None:
    try:
        data = decode(TargetInput, raw)
    except InvalidInput as error:
        assert error.fields
    else:
        assert isinstance(data.name, str)
