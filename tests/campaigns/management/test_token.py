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
        ((), "--list"),
        (("ann", "--scope", "read", "--name", "x" * 101), "at most 100 characters"),
        (("ann", "--scope", "read", "--name", "a\udcffb"), "--name"),
        (("\udcff", "--scope", "read"), "USER"),
        (("--revoke", "7"), "no token with the id 7"),
        (("--revoke", "9" * 30), "no token with the id"),
        (("--revoke", "7", "--list"), "not allowed with"),
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


def test_tokens_are_listed_without_their_text_and_revoked_by_their_id() -> None:
    for name in ("ann", "bob"):
        User.objects.create_user(name)
    texts = [token(name, "--scope", "read", "--name", f"of {name}").strip() for name in ("ann", "bob")]
    everyone, bobs = token("--list"), token("bob", "--list")
    assert "of ann" in everyone and "of bob" in everyone and "of ann" not in bobs and "valid" in bobs
    assert not any(text in everyone for text in texts)
    revoked = ApiToken.objects.get(user__username="bob")
    for _ in range(2):
        assert "revoked" in token("--revoke", str(revoked.pk))
    assert ApiToken.objects.find(texts[1]) is None and ApiToken.objects.find(texts[0]) is not None
    assert "revoked" in token("bob", "--list")
