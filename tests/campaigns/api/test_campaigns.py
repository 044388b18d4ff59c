"""/campaigns: create, read and change a campaign, and launch a run of it."""

from __future__ import annotations

from typing import Any

import pytest

from campaigns.api import examples
from campaigns.models import Run, Scope
from campaigns.services.mixes import archive_mix
from tests.campaigns.api.program import Program, error_of, make_campaign
from tests.campaigns.services.builders import make_mix, make_target

pytestmark = pytest.mark.django_db


def example() -> dict[str, Any]:
    return {**examples.CAMPAIGN, "target": make_target().pk, "mix": make_mix().pk}


def test_the_documented_example_makes_a_campaign_with_the_defaults_of_the_contract() -> None:
    program = Program(Scope.LAUNCH)
    body = example()
    response = program.post("/campaigns", body)
    assert response.status_code == 201, response.content
    made = response.json()
    assert {name: made[name] for name in body} == body
    assert made["refine"] == {"enabled": True, "budget_s": 1800} and made["load"] == "closed"
    assert [(one["metric"], one["stat"], one["max_degradation_pct"]) for one in made["criteria"]] == [
        ("ttft_ms", "p50", 50),
        ("tpot_ms", "p50", 50),
    ]
    assert program.get(response["Location"]).json() == made
    assert program.get("/campaigns").json()["items"] == [made]


def test_problems_name_their_place() -> None:
    body = {**example(), "stages": [5, 1], "target": 999_999, "criteria": [{"metric": "x"}], "refine": {"budget": 1}}
    error = error_of(Program(Scope.LAUNCH).post("/campaigns", body), 422)
    assert error["fields"] and all(name.startswith(("criteria", "refine")) for name in error["fields"])
    body |= {"criteria": [{"metric": "ttft_ms", "stat": "p50", "max_value": 5}], "refine": {}}
    error = error_of(Program(Scope.LAUNCH).post("/campaigns", body), 422)
    assert {"stages", "target"} <= set(error["fields"])


def test_a_campaign_is_changed_in_part() -> None:
    campaign = make_campaign()
    response = Program(Scope.LAUNCH).patch(f"/campaigns/{campaign.pk}", examples.CAMPAIGN_CHANGES)
    assert response.status_code == 200, response.content
    changed = response.json()
    assert changed["stages"] == [1, 2, 4, 8] and changed["refine"]["enabled"] is False
    assert changed["name"] == campaign.name and changed["target"] == campaign.target_id


def test_the_documented_example_launches_a_run() -> None:
    campaign = make_campaign()
    program = Program(Scope.LAUNCH)
    response = program.post(f"/campaigns/{campaign.pk}/runs", examples.LAUNCH)
    assert response.status_code == 202, response.content
    run = response.json()
    assert run["state"] == "queued" and run["campaign"] == campaign.pk
    assert run["label"] == examples.LAUNCH["label"] and run["deployment"] == examples.LAUNCH["deployment"]
    assert response["Location"] == f"/api/v1/runs/{run['id']}"
    assert program.get(response["Location"]).json() == run


def test_a_launch_needs_no_body() -> None:
    response = Program(Scope.LAUNCH).post(f"/campaigns/{make_campaign().pk}/runs")
    assert response.status_code == 202, response.content
    assert (response.json()["label"], response.json()["deployment"]) == ("", {})


def test_the_same_key_is_the_same_run() -> None:
    path = f"/campaigns/{make_campaign().pk}/runs"
    program = Program(Scope.LAUNCH)
    by_header = program.post(path, {}, Idempotency_Key="k1")
    by_field = program.post(path, {"idempotency_key": "k1"})
    both = program.post(path, {"idempotency_key": "k1"}, Idempotency_Key="k1")
    assert by_header.status_code == by_field.status_code == both.status_code == 202
    assert by_header.json()["id"] == by_field.json()["id"] == both.json()["id"]
    assert program.post(path, {}, Idempotency_Key="k2").json()["id"] != by_header.json()["id"]
    assert Run.objects.count() == 2


@pytest.mark.parametrize(("field", "header"), [("a", "b"), (None, "k" * 101), (None, "")])
def test_a_key_that_cannot_be_one_is_refused(field: str | None, header: str) -> None:
    path = f"/campaigns/{make_campaign().pk}/runs"
    error = error_of(Program(Scope.LAUNCH).post(path, {"idempotency_key": field}, Idempotency_Key=header), 422)
    assert list(error["fields"]) == ["idempotency_key"]
    assert not Run.objects.exists()


def test_a_campaign_whose_mix_is_archived_cannot_be_launched() -> None:
    campaign = make_campaign()
    archive_mix(campaign.mix)
    error = error_of(Program(Scope.LAUNCH).post(f"/campaigns/{campaign.pk}/runs"), 409)
    assert campaign.mix.name in error["message"]
    error_of(Program(Scope.LAUNCH).post("/campaigns/999999/runs"), 404)
