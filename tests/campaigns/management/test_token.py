"""`manage.py token` prints a token that works, once, or says what is wrong."""

from __future__ import annotations

from datetime import timedelta
from io import StringIO

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.utils import timezone

from campaigns.models import ApiToken, Membership, Role, Scope

pytestmark = pytest.mark.django_db


def token(*arguments: str) -> str:
    out = StringIO()
    call_command("token", *arguments, stdout=out)
    return out.getvalue()


def test_it_prints_a_token_of_that_scope_and_life() -> None:
    User.objects.create_user("ann")
    text = token("ann", "--scope", "launch", "--days", "7").strip()
    found = ApiToken.objects.find(text)
    assert found is not None
    assert (found.scope, found.user.username) == (Scope.LAUNCH, "ann")
    assert found.expires_at is not None
    assert abs(found.expires_at - timezone.now() - timedelta(days=7)) < timedelta(minutes=5)
    forever = ApiToken.objects.find(token("ann", "--scope", "read").strip())
    assert forever is not None and forever.expires_at is None


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("bob", "--scope", "read"), "no user 'bob'"),
        (("ann",), "--scope"),
        (("ann", "--scope", "root"), "invalid choice"),
        (("ann", "--scope", "read", "--days", "0"), "1 to"),
        (("ann", "--scope", "read", "--days", "soon"), "--days"),
        (("ann", "--scope", "launch"), "may only read"),
        (("gone", "--scope", "read"), "not active"),
    ],
)
def test_it_says_what_is_wrong(arguments: tuple[str, ...], words: str) -> None:
    Membership.objects.create(user=User.objects.create_user("ann"), role=Role.VIEWER)
    User.objects.create_user("gone", is_active=False)
    with pytest.raises(CommandError, match=words):
        token(*arguments)
    assert not ApiToken.objects.exists()
