"""A target's key, its headers and the secrets in its address leave the API in no answer."""

from __future__ import annotations

import pytest

from campaigns.models import Scope
from tests.campaigns.api.calls import CALLS
from tests.campaigns.api.program import BASE, Program, error_of
from tests.campaigns.services.builders import make_mix

pytestmark = pytest.mark.django_db

SECRETS = ("sk-TEST-123", "tok-456", "s=789")


def test_no_answer_of_any_call_holds_a_secret() -> None:
    program = Program(Scope.ADMIN)
    body = {
        "name": "t",
        "base_url": "http://127.0.0.1:9/v1",
        "model": "m",
        "api_key": SECRETS[0],
        "headers": {"X-Auth-Token": SECRETS[1], "Cookie": SECRETS[2]},
    }
    created = program.post("/targets", body)
    assert created.status_code == 201, created.content
    target = created.json()["id"]
    campaign = program.post("/campaigns", {"name": "c", "target": target, "mix": make_mix().pk}).json()["id"]
    run = program.post(f"/campaigns/{campaign}/runs").json()["id"]
    pks = {"targets": target, "mixes": 1, "campaigns": campaign, "runs": run}
    answers = [created.content]
    for call in CALLS:
        if call.method == "get":
            family = call.path.removeprefix(f"{BASE}/").split("/")[0]
            response = program.get(call.address(pks[family]))
            answers.append(response.getvalue())
    answers.append(program.patch(f"/targets/{target}", {"gpu_count": 4}).content)
    for public in ("/openapi.json", "/docs"):
        response = program.get(public)
        assert response.status_code == 200
        answers.append(response.content)
    for answer in answers:
        for secret in SECRETS:
            assert secret.encode() not in answer


def test_a_refusal_does_not_repeat_the_secret_it_refuses() -> None:
    program = Program(Scope.LAUNCH)
    body = {
        "name": "t",
        "base_url": "http://127.0.0.1:9/v1",
        "model": "m",
        "api_key": f"{SECRETS[0]}\nX: y",
        "headers": {"X-Auth-Token": f"{SECRETS[1]}\r\nY: z"},
    }
    response = program.post("/targets", body)
    assert {"api_key", "headers"} <= set(error_of(response, 422)["fields"])
    for secret in SECRETS:
        assert secret.encode() not in response.content


def test_a_secret_of_the_wrong_type_is_not_repeated() -> None:
    body = {"name": "t", "base_url": "http://127.0.0.1:9/v1", "model": "m", "api_key": 123456789}
    response = Program(Scope.LAUNCH).post("/targets", body)
    error_of(response, 422)
    assert b"123456789" not in response.content
