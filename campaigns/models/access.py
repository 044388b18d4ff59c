"""Who may do what: a person's role in the team, and API tokens with a scope."""

from __future__ import annotations

import hashlib
import secrets
from datetime import timedelta

from django.conf import settings
from django.contrib.auth.models import AbstractBaseUser
from django.db import models
from django.utils import timezone


class Scope(models.TextChoices):
    """What a token, or a role, may do; each includes the ones before it."""

    READ = "read"
    LAUNCH = "launch"
    ADMIN = "admin"

    def covers(self, needed: Scope) -> bool:
        order = list(Scope)
        return order.index(self) >= order.index(needed)


# What it takes to put targets and mixes out of use and back into it, in pages and API alike.
ARCHIVING = Scope.ADMIN


class Role(models.TextChoices):
    VIEWER = "viewer"
    LAUNCHER = "launcher"
    ADMIN = "admin"

    @property
    def scope(self) -> Scope:
        return {Role.VIEWER: Scope.READ, Role.LAUNCHER: Scope.LAUNCH, Role.ADMIN: Scope.ADMIN}[self]


class Membership(models.Model):
    """A person's role. Without one a superuser is an admin and anyone else a launcher."""

    user = models.OneToOneField(settings.AUTH_USER_MODEL, models.CASCADE, related_name="membership")
    role = models.CharField(max_length=10, choices=Role, default=Role.LAUNCHER)

    class Meta:
        constraints = [models.CheckConstraint(condition=models.Q(role__in=Role.values), name="membership_role_known")]

    def __str__(self) -> str:
        return f"{self.user} ({self.role})"


def scope_of(user: AbstractBaseUser) -> Scope:
    """What this logged-in person may do."""
    membership = Membership.objects.filter(user_id=user.pk).first()
    if membership is not None:
        return Role(membership.role).scope
    return Scope.ADMIN if getattr(user, "is_superuser", False) else Scope.LAUNCH


def _digest(token: str) -> str:
    # A token is 256 random bits: a plain hash cannot be searched, and it can be looked up.
    return hashlib.sha256(token.encode()).hexdigest()


class ApiTokenQuerySet(models.QuerySet["ApiToken"]):
    def valid(self) -> ApiTokenQuerySet:
        return self.filter(
            models.Q(expires_at=None) | models.Q(expires_at__gt=timezone.now()),
            revoked_at=None,
            user__is_active=True,
        )

    def find(self, token: str) -> ApiToken | None:
        """The valid token with this text."""
        return self.valid().select_related("user").filter(digest=_digest(token)).first()

    def issue(
        self, user: AbstractBaseUser, scope: Scope, name: str = "", days: int | None = None
    ) -> tuple[ApiToken, str]:
        """A new token and its text, which is not stored and cannot be shown again."""
        text = "brim_" + secrets.token_urlsafe(32)
        expires_at = timezone.now() + timedelta(days=days) if days else None
        token = self.create(
            user_id=user.pk,
            scope=scope,
            name=name,
            digest=_digest(text),
            hint=text[:9],
            expires_at=expires_at,
        )
        return token, text


class ApiToken(models.Model):
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="api_tokens")
    name = models.CharField(max_length=100, blank=True)
    scope = models.CharField(max_length=10, choices=Scope)
    digest = models.CharField(max_length=64, unique=True, editable=False)
    hint = models.CharField(max_length=12, help_text="The first characters, to tell tokens apart.")
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)

    objects = ApiTokenQuerySet.as_manager()

    class Meta:
        ordering = ["-id"]
        constraints = [models.CheckConstraint(condition=models.Q(scope__in=Scope.values), name="token_scope_known")]

    def __str__(self) -> str:
        return f"{self.hint}… ({self.scope})"
