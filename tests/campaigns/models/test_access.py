"""Tokens are stored hashed, expire, can be revoked; a scope covers the ones below it."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from campaigns.models import ApiToken, Membership, Role, Scope
from campaigns.models.access import scope_of

pytestmark = pytest.mark.django_db


def test_a_token_is_found_by_its_text_and_stored_hashed() -> None:
    user = User.objects.create_user("ann")
    token, text = ApiToken.objects.issue(user, Scope.READ)
    assert ApiToken.objects.find(text) == token
    assert text not in {str(value) for value in ApiToken.objects.values().get().values()}
    assert ApiToken.objects.find(text + "x") is None
    assert ApiToken.objects.find("") is None


def test_expired_revoked_or_orphaned_tokens_are_not_valid() -> None:
    user = User.objects.create_user("ann")
    token, text = ApiToken.objects.issue(user, Scope.READ, days=1)
    assert ApiToken.objects.find(text)
    past = timezone.now() - timedelta(seconds=1)
    for change, undo in (({"expires_at": past}, {"expires_at": None}), ({"revoked_at": past}, {"revoked_at": None})):
        ApiToken.objects.filter(pk=token.pk).update(**change)
        assert ApiToken.objects.find(text) is None
        ApiToken.objects.filter(pk=token.pk).update(**undo)
    User.objects.update(is_active=False)
    assert ApiToken.objects.find(text) is None


@pytest.mark.parametrize(
    ("held", "needed", "enough"),
    [
        (Scope.READ, Scope.READ, True),
        (Scope.READ, Scope.LAUNCH, False),
        (Scope.LAUNCH, Scope.READ, True),
        (Scope.LAUNCH, Scope.ADMIN, False),
        (Scope.ADMIN, Scope.LAUNCH, True),
    ],
)
def test_scopes_are_ordered(held: Scope, needed: Scope, enough: bool) -> None:
    assert held.covers(needed) is enough


def test_a_role_decides_and_a_superuser_needs_none() -> None:
    ann = User.objects.create_user("ann")
    assert scope_of(ann) is Scope.LAUNCH
    Membership.objects.create(user=ann, role=Role.VIEWER)
    assert scope_of(ann) is Scope.READ
    root = User.objects.create_superuser("root")
    assert scope_of(root) is Scope.ADMIN
