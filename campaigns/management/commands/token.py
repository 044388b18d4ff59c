"""`manage.py token USER --scope read|launch|admin [--days N]`: prints a new API token, once."""

from __future__ import annotations

import argparse
from typing import Any

from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError

from campaigns.models import ApiToken, Scope
from campaigns.models.access import scope_of

DAYS_MAX = 36_500


def _days(text: str) -> int:
    days = int(text)
    if not 1 <= days <= DAYS_MAX:
        raise argparse.ArgumentTypeError(f"must be 1 to {DAYS_MAX}, not {days}")
    return days


class Command(BaseCommand):
    help = "Print a new API token of a user. It is shown this once; only its hash is kept."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("user", metavar="USER", help="whose token it is: a user name of the site")
        parser.add_argument(
            "--scope", required=True, choices=Scope.values, help="what it may do, at most what USER may"
        )
        parser.add_argument("--days", type=_days, metavar="N", help="valid for N days; without it until it is revoked")
        parser.add_argument("--name", default="", help="a note that tells tokens apart")

    def handle(self, *args: Any, **options: Any) -> None:
        name, scope = options["user"], Scope(options["scope"])
        user = get_user_model().objects.filter(username=name).first()
        if user is None:
            raise CommandError(f"there is no user {name!r}; create one with `manage.py createsuperuser`")
        if not user.is_active:
            raise CommandError(f"the user {name!r} is not active, so a token would not work")
        if not scope_of(user).covers(scope):
            raise CommandError(f"the user {name!r} may only {scope_of(user)}; ask for --scope {scope_of(user)} or less")
        _, text = ApiToken.objects.issue(user, scope, name=options["name"], days=options["days"])
        self.stdout.write(text)
