"""Whoever guesses passwords has to wait, with words; nobody else does."""

from __future__ import annotations

import pytest
from django.core.cache import cache
from django.test import Client
from django.urls import reverse

from campaigns.pages import login
from tests.campaigns.builders import PASSWORD, make_user

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _nothing_remembered():
    cache.clear()
    make_user("ann")
    make_user("bob")
    yield
    cache.clear()


def attempt(name="ann", password="wrong", address="10.0.0.1"):
    return Client(REMOTE_ADDR=address).post(reverse("login"), {"username": name, "password": password})


def test_too_many_wrong_passwords_close_the_login_for_a_while():
    assert [attempt().status_code for _ in range(login.FAILURES_MAX)] == [200] * login.FAILURES_MAX
    for password in ("wrong", PASSWORD):
        refused = attempt(password=password)
        assert refused.status_code == 429 and refused["Retry-After"] == "60"
        assert "Too many wrong passwords. Wait a minute" in refused.content.decode()
    assert attempt(name="ANN ").status_code == 429
    # Another person, and the same one elsewhere, are not held up.
    assert attempt(name="bob", password=PASSWORD).status_code == 302
    assert attempt(password=PASSWORD, address="10.0.0.2").status_code == 302


def test_after_the_while_it_is_open_again(monkeypatch):
    monkeypatch.setattr(login, "WITHIN_S", 0)
    for _ in range(2 * login.FAILURES_MAX):
        assert attempt().status_code == 200


def test_the_right_password_forgets_the_wrong_ones():
    for _ in range(3):
        for _ in range(login.FAILURES_MAX - 1):
            assert attempt().status_code == 200
        assert attempt(password=PASSWORD).status_code == 302


@pytest.mark.parametrize("name", ["", "x" * 10_000, "\0", b"\xff", "名前 with blanks"])
def test_no_name_breaks_the_page(name):
    for _ in range(login.FAILURES_MAX + 1):
        assert attempt(name=name).status_code in (200, 429)
