"""`manage.py token USER --scope read|launch|admin [--days N]`: prints a new API token, once. `--list` shows what tokens
there are, `--revoke ID` ends one."""

from __future__ import annotations

import argparse
from typing import Any

from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from campaigns.models import ApiToken, Scope
from campaigns.models.access import scope_of
from campaigns.services.checks import Problems
from campaigns.services.errors import InvalidInput
from webapp.commands import manage_command

DAYS_MAX = 36_500
NAME_MAX = 100


def _days(text: str) -> int:
    days = int(text)
    if not 1 <= days <= DAYS_MAX:
        raise argparse.ArgumentTypeError(f"must be 1 to {DAYS_MAX}, not {days}")
    return days


class Command(BaseCommand):
    help = "Print a new API token of a user. It is shown this once; only its hash is kept."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("user", metavar="USER", nargs="?", help="whose token it is: a user name of the site")
        parser.add_argument("--scope", choices=Scope.values, help="what it may do, at most what USER may")
        parser.add_argument("--days", type=_days, metavar="N", help="valid for N days; without it until it is revoked")
        parser.add_argument("--name", default="", help="a note that tells tokens apart")
        instead = parser.add_mutually_exclusive_group()
        instead.add_argument("--list", action="store_true", help="show the tokens there are, of USER or of all")
        instead.add_argument("--revoke", type=int, metavar="ID", help="end the token with this id of the list")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["revoke"] is not None:
            self._revoke(options["revoke"])
        elif options["list"]:
            self._list(options["user"])
        else:
            self._issue(options["user"], options["scope"], options["name"], options["days"])

    def _issue(self, name: str | None, wanted: str | None, note: str, days: int | None) -> None:
        if name is None or wanted is None:
            raise CommandError("give a USER and a --scope for a new token, or --list, or --revoke ID")
        scope = Scope(wanted)
        problems = Problems()
        problems.text("USER", name)
        note = problems.text("--name", note, NAME_MAX, blank=True)
        try:
            problems.stop()
        except InvalidInput as error:
            raise CommandError(error.message) from None
        user = get_user_model().objects.filter(username=name).first()
        if user is None:
            make = manage_command("member", name, "--role", "launcher", "--create")
            raise CommandError(f"there is no user {name!r}; make one with: {make}")
        if not user.is_active:
            raise CommandError(f"the user {name!r} is not active, so a token would not work")
        if not scope_of(user).covers(scope):
            raise CommandError(f"the user {name!r} may only {scope_of(user)}; ask for --scope {scope_of(user)} or less")
        _, text = ApiToken.objects.issue(user, scope, name=note, days=days)
        self.stdout.write(text)

    def _list(self, name: str | None) -> None:
        tokens = ApiToken.objects.select_related("user").order_by("pk")
        for one in tokens if name is None else tokens.filter(user__username=name):
            used = f"used {one.last_used_at:%Y-%m-%d}" if one.last_used_at else "never used"
            parts = [str(one.pk), one.user.get_username(), one.scope, f"{one.hint}…", _state(one), used, one.name]
            self.stdout.write("\t".join(parts).rstrip())

    def _revoke(self, pk: int) -> None:
        token = ApiToken.objects.filter(pk=pk).first() if 0 < pk < 2**63 else None
        if token is None:
            raise CommandError(f"there is no token with the id {pk}; see {manage_command('token', '--list')}")
        # One that was revoked before keeps the time of that.
        ApiToken.objects.filter(pk=pk, revoked_at=None).update(revoked_at=timezone.now())
        self.stdout.write(f"token {pk} of {token.user.get_username()} is revoked")


def _state(token: ApiToken) -> str:
    if token.revoked_at is not None:
        return f"revoked {token.revoked_at:%Y-%m-%d}"
    if token.expires_at is None:
        return "valid"
    word = "expired" if token.expires_at <= timezone.now() else "valid until"
    return f"{word} {token.expires_at:%Y-%m-%d}"
