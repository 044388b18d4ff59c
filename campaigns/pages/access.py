"""Who may open a page and who may act: everyone logs in, only those with the launch scope change anything, and only
admins archive."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from campaigns.models import Scope
from campaigns.models.access import ARCHIVING, scope_of

View = Callable[..., HttpResponse]


def may_launch(user: AbstractBaseUser | AnonymousUser) -> bool:
    """Whether `user` may change targets, mixes and campaigns, and launch and stop runs."""
    return permissions(user)["may_launch"]


def may_archive(user: AbstractBaseUser | AnonymousUser) -> bool:
    """Whether `user` may put targets and mixes out of use, and back into it."""
    return permissions(user)["may_archive"]


def permissions(user: AbstractBaseUser | AnonymousUser) -> dict[str, bool]:
    """Both answers at once, as templates ask for them."""
    held = scope_of(user) if isinstance(user, AbstractBaseUser) else None
    needed = {"may_launch": Scope.LAUNCH, "may_archive": ARCHIVING}
    return {name: held is not None and held.covers(scope) for name, scope in needed.items()}


def person(request: HttpRequest) -> AbstractBaseUser:
    """Who has logged in; only inside a view that asks for a login."""
    assert isinstance(request.user, AbstractBaseUser)
    return request.user


def launcher_required(view: View) -> View:
    """A view for those who may launch: others get the 403 page, people without a login the login page."""
    why = _("Your role is viewer: you may read everything, and change or launch nothing. Ask an admin for more.")
    return _required(view, may_launch, why)


def archiver_required(view: View) -> View:
    """The same for those who may archive."""
    return _required(view, may_archive, _("Only an admin may archive, or take out of the archive. Ask one."))


def _required(view: View, allowed: Callable[[AbstractBaseUser | AnonymousUser], bool], why: str | Promise) -> View:
    @wraps(view)
    def checked(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if not allowed(request.user):
            raise PermissionDenied(why)
        return view(request, *args, **kwargs)

    return login_required(checked)
