"""/targets: create, read, change, archive and check a target."""

from __future__ import annotations

import pytest

from campaigns.api import examples
from campaigns.models import Scope, Target
from campaigns.services.targets import headers_of
from tests.campaigns.api.program import Program, end, error_of, make_campaign, make_run
from tests.campaigns.services.builders import make_target
from tests.campaigns.services.llm_server import good, serving, unused_port

pytestmark = pytest.mark.django_db


def test_the_documented_example_makes_a_target() -> None:
    program = Program(Scope.LAUNCH)
    response = program.post("/targets", examples.TARGET)
    assert response.status_code == 201, response.content
    made = response.json()
    assert {name: made[name] for name in examples.TARGET} == examples.TARGET
    assert made["created_by"] == "launch-bot"
    assert made["archived_at"] is made["preflight"] is None
    assert response["Location"] == f"/api/v1/targets/{made['id']}"
    assert program.get(response["Location"]).json() == made
    assert program.get("/targets").json() == {"items": [made], "next": None}


def test_all_problems_are_named_at_once() -> None:
    body = {"name": "", "base_url": "h:8000", "protocol": "grpc", "gpus": 3, "metrics": [{"kind": "x"}]}
    error = error_of(Program(Scope.LAUNCH).post("/targets", body), 422)
    assert error["code"] == "invalid"
    assert {"gpus", "model"} <= set(error["fields"])
    assert not Target.objects.exists()


def test_a_name_that_is_taken_is_refused() -> None:
    make_target(name="one")
    body = {"name": "one", "base_url": "http://127.0.0.1:9", "model": "m"}
    assert list(error_of(Program(Scope.LAUNCH).post("/targets", body), 422)["fields"]) == ["name"]


def test_a_change_keeps_what_is_not_given_and_the_secrets() -> None:
    target = make_target(api_key="sk-1", headers={"X-Team": "a"}, gpu_count=1)
    response = Program(Scope.LAUNCH).patch(f"/targets/{target.pk}", examples.TARGET_CHANGES)
    assert response.status_code == 200, response.content
    changed = response.json()
    assert (changed["tags"], changed["gpu_count"], changed["name"]) == (["production"], 2, "t")
    assert changed["has_api_key"] is True and changed["header_names"] == ["X-Team"]
    target.refresh_from_db()
    assert target.api_key.reveal() == "sk-1" and headers_of(target) == {"X-Team": "a"}


def test_an_empty_key_clears_it_and_null_clears_a_number() -> None:
    target = make_target(api_key="sk-1", headers={"X-Team": "a"}, gpu_count=1)
    changed = Program(Scope.LAUNCH).patch(f"/targets/{target.pk}", {"api_key": "", "headers": {}, "gpu_count": None})
    assert changed.json()["has_api_key"] is False
    assert changed.json()["header_names"] == [] and changed.json()["gpu_count"] is None


def test_what_only_the_answer_has_cannot_be_changed() -> None:
    target = make_target()
    error = error_of(Program(Scope.LAUNCH).patch(f"/targets/{target.pk}", {"id": 7, "has_api_key": True}), 422)
    assert set(error["fields"]) == {"id", "has_api_key"}


def test_an_archived_target_leaves_the_list_and_stays_readable() -> None:
    target = make_target()
    program = Program(Scope.ADMIN)
    response = program.delete(f"/targets/{target.pk}")
    assert (response.status_code, response.content) == (204, b"")
    assert program.delete(f"/targets/{target.pk}").status_code == 204
    assert program.get("/targets").json()["items"] == []
    assert program.get(f"/targets/{target.pk}").json()["archived_at"] is not None
    error_of(program.patch(f"/targets/{target.pk}", {"name": "x"}), 409)


def test_a_target_with_a_run_ahead_cannot_be_archived() -> None:
    campaign = make_campaign()
    run = make_run(campaign)
    program = Program(Scope.ADMIN)
    error = error_of(program.delete(f"/targets/{campaign.target_id}"), 409)
    assert f"Run {run.pk}" in error["message"]
    end(run)
    assert program.delete(f"/targets/{campaign.target_id}").status_code == 204


def test_a_preflight_of_a_closed_port_is_an_answer_that_says_so() -> None:
    target = make_target(base_url=f"http://127.0.0.1:{unused_port()}/v1", api_key="sk-TEST-123")
    program = Program(Scope.LAUNCH)
    response = program.post(f"/targets/{target.pk}/preflight")
    assert response.status_code == 200, response.content
    report = response.json()
    assert set(report) == {"ok", "checks", "detected", "simulated"}
    reachable = next(check for check in report["checks"] if check["name"] == "reachable")
    assert report["ok"] is reachable["ok"] is False
    assert reachable["required"] is True and reachable["hint"]
    assert b"sk-TEST-123" not in response.content
    assert program.get(f"/targets/{target.pk}").json()["preflight"]["ok"] is False
    error_of(program.post("/targets/999999/preflight"), 404)


def test_a_preflight_of_a_good_server_says_what_it_is() -> None:
    with serving(good()) as server:
        target = make_target(base_url=server.url)
        response = Program(Scope.LAUNCH).post(f"/targets/{target.pk}/preflight")
    report = response.json()
    assert report["ok"] is True, report
    assert (report["detected"]["engine"], report["detected"]["max_model_len"]) == ("vLLM", 4096)
