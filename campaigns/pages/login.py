"""The login page; a person who is already in goes where the page would lead, one who guesses has to wait."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from typing import Any

from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.views import LoginView
from django.core.cache import cache
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _

FAILURES_MAX = 5
WITHIN_S = 60


class Login(LoginView):
    """After `FAILURES_MAX` wrong passwords of one name from one address within `WITHIN_S`, even the right one is
    refused until that time is over. Each web process counts by itself."""

    template_name = "account/login.html"
    redirect_authenticated_user = True

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if cache.get(_key(request), 0) < FAILURES_MAX:
            return super().post(request, *args, **kwargs)
        form = self.get_form_class()(request)
        words = _("Too many wrong passwords. Wait a minute, then try again.")
        response = self.render_to_response(self.get_context_data(form=form, refused=words), status=429)
        response["Retry-After"] = str(WITHIN_S)
        return response

    def form_valid(self, form: AuthenticationForm) -> HttpResponse:
        cache.delete(_key(self.request))
        return super().form_valid(form)

    def form_invalid(self, form: AuthenticationForm) -> HttpResponse:
        key = _key(self.request)
        if not cache.add(key, 1, WITHIN_S):
            # Its minute may just be over.
            with suppress(ValueError):
                cache.incr(key)
        return super().form_invalid(form)


def _key(request: HttpRequest) -> str:
    """Of the name that was typed, and where from. A hash: a cache's keys are short and plain."""
    who = f"{request.POST.get('username', '').strip().casefold()}\0{request.META.get('REMOTE_ADDR', '')}"
    return "login-" + hashlib.sha256(who.encode("utf-8", "replace")).hexdigest()
