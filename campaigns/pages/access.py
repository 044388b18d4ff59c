"""Who may open a page and who may act: everyone logs in, and only those with the launch scope change anything."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _

from campaigns.models import Scope
from campaigns.models.access import scope_of

View = Callable[..., HttpResponse]


def may_launch(user: AbstractBaseUser | AnonymousUser) -> bool:
    """Whether `user` may change targets, mixes and campaigns, and launch and stop runs."""
    return isinstance(user, AbstractBaseUser) and scope_of(user).covers(Scope.LAUNCH)


def person(request: HttpRequest) -> AbstractBaseUser:
    """Who has logged in; only inside a view that asks for a login."""
    assert isinstance(request.user, AbstractBaseUser)
    return request.user


def launcher_required(view: View) -> View:
    """A view for those who may launch: others get the 403 page, people without a login the login page."""

    @wraps(view)
    def checked(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if not may_launch(request.user):
            raise PermissionDenied(
                _("Your role is viewer: you may read everything, and change or launch nothing. Ask an admin for more.")
            )
        return view(request, *args, **kwargs)

    return login_required(checked)
