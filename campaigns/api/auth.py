"""Who calls, and what that caller may do. A token comes first; the browser's session serves the site's own pages."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from django.contrib.auth.models import AbstractBaseUser
from django.db.models import Q
from django.http import HttpRequest
from django.utils import timezone
from ninja.errors import AuthenticationError
from ninja.security import HttpBearer
from ninja.security.apikey import APIKeyCookie
from ninja.utils import check_csrf

from campaigns.models import ApiToken, Scope
from campaigns.models.access import scope_of
from campaigns.services.errors import Forbidden

USED_EVERY = timedelta(minutes=1)
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


@dataclass(frozen=True, slots=True)
class Caller:
    user: AbstractBaseUser
    scope: Scope


def caller(request: HttpRequest) -> Caller:
    """Who made this request; only inside an operation that `require`s a scope."""
    who = request.auth  # type: ignore[attr-defined]
    assert isinstance(who, Caller)
    return who


def require(scope: Scope) -> list[HttpBearer | APIKeyCookie]:
    """The `auth` of an operation that needs `scope`."""
    return [Token(scope), Session(scope)]


class Token(HttpBearer):
    """`Authorization: Bearer TOKEN`; a header that is there and wrong is refused, whatever the session says."""

    openapi_description = (
        "A token of `manage.py token USER --scope read|launch|admin`; each scope holds those before it."
    )

    def __init__(self, scope: Scope) -> None:
        super().__init__()
        self.scope = scope

    def __call__(self, request: HttpRequest) -> Caller | None:
        if "Authorization" not in request.headers:
            return None
        found: Caller | None = super().__call__(request)
        if found is None:
            raise AuthenticationError
        return found

    def authenticate(self, request: HttpRequest, token: str) -> Caller | None:
        known = ApiToken.objects.find(token.strip())
        if known is None:
            return None
        now = timezone.now()
        stale = Q(last_used_at=None) | Q(last_used_at__lt=now - USED_EVERY)
        ApiToken.objects.filter(stale, pk=known.pk).update(last_used_at=now)
        # A token never outgrows its owner, whose role may have changed since it was made.
        held = min(Scope(known.scope), scope_of(known.user), key=list(Scope).index)
        return _admit(Caller(known.user, held), self.scope, "token")


class Session(APIKeyCookie):
    """The login of the site's own pages; a method that changes something needs the CSRF token too."""

    param_name = "sessionid"
    openapi_description = "The browser's login; calls that change something also send the header X-CSRFToken."

    def __init__(self, scope: Scope) -> None:
        super().__init__()
        self.scope = scope

    def __call__(self, request: HttpRequest) -> Caller | None:
        if not request.user.is_authenticated:
            return None
        if request.method not in SAFE_METHODS and check_csrf(request) is not None:
            raise Forbidden("The CSRF token is missing or wrong: send it in the header X-CSRFToken, or use a token")
        return _admit(Caller(request.user, scope_of(request.user)), self.scope, "login")

    def authenticate(self, request: HttpRequest, key: str | None) -> None:
        raise NotImplementedError("the session middleware has looked the cookie up already")


def _admit(who: Caller, needed: Scope, means: str) -> Caller:
    if not who.scope.covers(needed):
        raise Forbidden(f"This call needs the scope {needed}; this {means} has {who.scope}")
    return who
