"""The login page; a person who is already in goes where the page would lead."""

from __future__ import annotations

from django.contrib.auth.views import LoginView


class Login(LoginView):
    template_name = "account/login.html"
    redirect_authenticated_user = True
