"""`manage.py member` gives roles, and accounts that can log in, or says what is wrong and changes nothing."""

from __future__ import annotations

import io
from io import StringIO

import pytest
from django.contrib.auth import authenticate
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command

from campaigns.models import Membership, Role, Scope
from campaigns.models.access import scope_of

pytestmark = pytest.mark.django_db

PASSWORD = "correct-horse-battery"


def member(*arguments: str, typed: str = "", monkeypatch: pytest.MonkeyPatch | None = None) -> str:
    out = StringIO()
    if monkeypatch is not None:
        monkeypatch.setattr("sys.stdin", io.StringIO(typed))
    call_command("member", *arguments, stdout=out)
    return out.getvalue()


@pytest.mark.parametrize("role", Role)
def test_a_role_is_given_and_taken_again(role: Role) -> None:
    user = User.objects.create_user("ann")
    for one in (role, Role.VIEWER, role):
        assert f"ann is a{'n' if one == Role.ADMIN else ''} {one}" in member("ann", "--role", one)
        assert scope_of(user) == one.scope
    assert Membership.objects.count() == 1


def test_an_account_is_made_with_the_password_from_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    said = member("bob", "--role", "viewer", "--create", typed=f"{PASSWORD}\n", monkeypatch=monkeypatch)
    user = authenticate(username="bob", password=PASSWORD)
    assert user is not None and scope_of(user) == Scope.READ
    assert "new account" in said and PASSWORD not in said


def test_create_leaves_an_account_that_is_there_as_it_is() -> None:
    User.objects.create_user("ann", password=PASSWORD)
    member("ann", "--role", "admin", "--create")
    assert authenticate(username="ann", password=PASSWORD) is not None


@pytest.mark.parametrize(
    ("arguments", "typed", "words"),
    [
        (("bob", "--role", "viewer"), "", "no user 'bob'.*--create"),
        (("bob", "--role", "root"), "", "invalid choice"),
        (("bob",), "", "--role"),
        (("bob", "--role", "viewer", "--create"), "short\n", "too short"),
        (("bob", "--role", "viewer", "--create"), "", "too short"),
        (("two words", "--role", "viewer", "--create"), f"{PASSWORD}\n", "valid username"),
        (("x" * 151, "--role", "viewer", "--create"), f"{PASSWORD}\n", "150"),
        (("\udcff", "--role", "viewer", "--create"), f"{PASSWORD}\n", "not valid text"),
    ],
)
def test_it_says_what_is_wrong_and_changes_nothing(
    arguments: tuple[str, ...], typed: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(CommandError, match=words):
        member(*arguments, typed=typed, monkeypatch=monkeypatch)
    assert not User.objects.exists() and not Membership.objects.exists()
