"""A call needs a token that holds its scope, or the browser's session with its CSRF token."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from campaigns.api import examples
from campaigns.models import ApiToken, Membership, Mix, Role, Scope
from tests.campaigns.api.calls import CALLS, Call
from tests.campaigns.api.program import BASE, Program, error_of

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("call", CALLS, ids=str)
def test_every_call_needs_a_token(call: Call) -> None:
    response = Program(None).send(call.method, call.address(1))
    assert error_of(response, 401)["code"] == "unauthorized"
    assert response["WWW-Authenticate"].startswith("Bearer")


@pytest.mark.parametrize("call", CALLS, ids=str)
def test_every_call_needs_the_scope_it_documents(call: Call) -> None:
    for scope in Scope:
        response = Program(scope).send(call.method, call.address(999_999))
        if scope.covers(call.scope):
            assert response.status_code not in {401, 403}, response.content
        else:
            message = error_of(response, 403)["message"]
            assert call.scope in message and scope in message


@pytest.mark.parametrize(
    "header", ["Bearer", "Bearer ", "Bearer nonsense", "bearer brim_x", "Basic YTpi", "x", "Token é"]
)
def test_a_header_that_is_no_token_is_refused(header: str) -> None:
    response = Program(None).get("/targets", Authorization=header)
    error_of(response, 401)


@pytest.mark.parametrize("change", ["expired", "revoked", "inactive"])
def test_a_token_that_no_longer_counts_is_refused(change: str) -> None:
    program = Program(Scope.READ)
    assert program.get("/targets").status_code == 200
    past = timezone.now() - timedelta(seconds=1)
    match change:
        case "expired":
            ApiToken.objects.update(expires_at=past)
        case "revoked":
            ApiToken.objects.update(revoked_at=past)
        case "inactive":
            User.objects.update(is_active=False)
    error_of(program.get("/targets"), 401)


def test_a_token_does_not_outgrow_its_owner() -> None:
    ann = User.objects.create_user("ann")
    program = Program(Scope.ADMIN, ann)
    assert program.post("/mixes", examples.MIX).status_code == 201
    Membership.objects.create(user=ann, role=Role.VIEWER)
    assert program.get("/mixes").status_code == 200
    error_of(program.post("/mixes", examples.MIX), 403)


def test_the_use_of_a_token_is_noted_at_most_once_a_minute() -> None:
    program = Program(Scope.READ)
    token = ApiToken.objects.get()
    assert token.last_used_at is None
    program.get("/targets")
    token.refresh_from_db()
    first = token.last_used_at
    assert first is not None
    program.get("/targets")
    token.refresh_from_db()
    assert token.last_used_at == first
    ApiToken.objects.update(last_used_at=first - timedelta(minutes=2))
    program.get("/targets")
    token.refresh_from_db()
    assert token.last_used_at is not None and token.last_used_at >= first


def test_a_session_may_read_and_needs_csrf_to_write() -> None:
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(User.objects.create_user("ann"))
    assert browser.get(f"{BASE}/mixes").status_code == 200
    refused = browser.post(f"{BASE}/mixes", examples.MIX, "application/json")
    assert "CSRF" in error_of(refused, 403)["message"]
    assert not Mix.objects.exists()
    # The page of the documentation hands out the token.
    csrf = browser.get(f"{BASE}/docs").cookies["csrftoken"].value
    made = browser.post(f"{BASE}/mixes", examples.MIX, "application/json", headers={"X-CSRFToken": csrf})
    assert made.status_code == 201
    assert made.json()["created_by"] == "ann"


def test_a_session_has_the_scope_of_its_role() -> None:
    browser = Client()
    user = User.objects.create_user("ann")
    Membership.objects.create(user=user, role=Role.VIEWER)
    browser.force_login(user)
    assert browser.get(f"{BASE}/mixes").status_code == 200
    assert "read" in error_of(browser.post(f"{BASE}/mixes", examples.MIX, "application/json"), 403)["message"]


def test_a_wrong_token_is_refused_beside_a_good_session() -> None:
    browser = Client()
    browser.force_login(User.objects.create_superuser("root"))
    error_of(browser.get(f"{BASE}/mixes", headers={"Authorization": "Bearer nonsense"}), 401)


def test_the_session_of_a_person_who_left_is_refused() -> None:
    browser = Client()
    browser.force_login(User.objects.create_user("ann"))
    User.objects.update(is_active=False)
    error_of(browser.get(f"{BASE}/mixes"), 401)
