"""Every error has the one form, says what to do, and shows nothing of the inside."""

from __future__ import annotations

import pytest
from django.test import Client
from pytest_django import Settings

from campaigns.models import Run, Scope
from tests.campaigns.api.calls import METHODS, WRONG, Call
from tests.campaigns.api.program import BASE, Program, error_of, make_run

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    "path", ["/", "/nothing", "/targets/", "/targets/x", "/targets/1/nothing", "/targets/-1", "/../x"]
)
def test_an_unknown_address_is_an_error_in_the_form(path: str) -> None:
    for method in METHODS:
        error = error_of(Program(None).send(method, path), 404)
        assert error["code"] == "not_found"
        assert f"{BASE}/docs" in error["message"]


@pytest.mark.parametrize("path", ["/targets", "/mixes", "/campaigns", "/runs"])
@pytest.mark.parametrize("pk", [999_999, 2**63 - 1, 2**63, 10**30])
def test_an_unknown_id_is_named(path: str, pk: int) -> None:
    assert str(pk) in error_of(Program(Scope.READ).get(f"{path}/{pk}"), 404)["message"]


@pytest.mark.parametrize(("method", "path"), WRONG)
def test_a_wrong_method_is_an_error_that_names_the_right_ones(method: str, path: str) -> None:
    response = Program(Scope.ADMIN).send(method, Call(method, path, Scope.READ).address(1))
    assert error_of(response, 405)["code"] == "method_not_allowed"
    assert response["Allow"] and method.upper() not in response["Allow"]


@pytest.mark.parametrize("body", ["{", "nul", '{"name": NaN}', b"\xff\xfe", "[" * 100_000, '{"a": 1} x'])
def test_a_body_that_is_not_json_is_a_bad_request(body: str | bytes) -> None:
    program = Program(Scope.LAUNCH)
    response = program.client.post(f"{BASE}/mixes", body, "application/json", headers=program.headers)
    assert "JSON" in error_of(response, 400)["message"]


def test_a_body_that_is_missing_is_a_bad_request() -> None:
    assert "JSON object" in error_of(Program(Scope.LAUNCH).post("/mixes"), 400)["message"]


@pytest.mark.parametrize("body", ["null", "[]", "3", '"x"', "true"])
def test_a_body_that_is_no_object_is_a_bad_request(body: str) -> None:
    program = Program(Scope.LAUNCH)
    response = program.client.post(f"{BASE}/mixes", body, "application/json", headers=program.headers)
    assert "object" in error_of(response, 400)["message"]


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"])
def test_a_body_of_another_type_is_refused(kind: str) -> None:
    program = Program(Scope.LAUNCH)
    response = program.client.post(f"{BASE}/mixes", "{}", kind, headers=program.headers)
    assert "application/json" in error_of(response, 415)["message"]


def test_a_charset_beside_the_type_is_fine() -> None:
    program = Program(Scope.LAUNCH)
    response = program.client.post(f"{BASE}/mixes", "{}", "application/json; charset=utf-8", headers=program.headers)
    assert set(error_of(response, 422)["fields"]) == {"name", "classes"}


def test_a_body_that_is_too_large_is_refused(settings: Settings) -> None:
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 100
    error_of(Program(Scope.LAUNCH).post("/mixes", {"name": "x" * 200, "classes": []}), 413)


def test_a_failure_inside_goes_to_the_log_and_not_to_the_caller(caplog: pytest.LogCaptureFixture) -> None:
    run = make_run()
    Run.objects.update(plan={"broken": "by hand"})
    response = Program(Scope.READ).get(f"/runs/{run.pk}")
    assert error_of(response, 500)["code"] == "internal_server_error"
    for word in (b"Traceback", b"KeyError", b"target", b"broken"):
        assert word not in response.content
    logged = [record for record in caplog.records if record.levelname == "ERROR"]
    assert len(logged) == 1 and logged[0].exc_info and logged[0].exc_info[0] is KeyError


def test_a_host_that_is_not_ours_is_refused_in_the_form() -> None:
    error_of(Client(headers={"Host": "evil.example"}).get(f"{BASE}/targets"), 400)


def test_pages_outside_the_api_keep_their_own_errors() -> None:
    response = Client().get("/nothing-here")
    assert response.status_code == 404
    assert response["Content-Type"].startswith("text/html")
