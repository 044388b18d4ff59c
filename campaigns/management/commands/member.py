"""`manage.py member USER --role viewer|launcher|admin [--create]`: gives a person a role, and an account on request."""

from __future__ import annotations

import argparse
import getpass
import sys
from typing import Any

from django.contrib.auth.models import User
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError
from django.db import transaction

from campaigns.models import Membership, Role
from webapp.commands import manage_command


class Command(BaseCommand):
    help = (
        "Give a person a role: a viewer reads everything, a launcher also describes targets and launches runs, an "
        "admin also archives."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("user", metavar="USER", help="the person's user name")
        parser.add_argument("--role", required=True, choices=Role.values)
        parser.add_argument(
            "--create",
            action="store_true",
            help="make the account when there is none; its password is asked for, or read from standard input",
        )

    @transaction.atomic
    def handle(self, *args: Any, **options: Any) -> None:
        name, role = options["user"], Role(options["role"])
        user = _find(name)
        if user is None and not options["create"]:
            make = manage_command("member", name, "--role", role, "--create")
            raise CommandError(f"there is no user {name!r}; make one with: {make}")
        is_new = user is None
        user = user or _create(name)
        Membership.objects.update_or_create(user=user, defaults={"role": role})
        self.stdout.write(f"{name} is {'an' if role == Role.ADMIN else 'a'} {role}{' (new account)' if is_new else ''}")


def _find(name: str) -> User | None:
    try:
        return User.objects.filter(username=name).first()
    except UnicodeEncodeError:
        raise CommandError("the user name is not valid text") from None


def _create(name: str) -> User:
    user = User(username=name)
    password = _password()
    try:
        user.full_clean(exclude=["password"])
        validate_password(password, user)
    except ValidationError as error:
        raise CommandError(" ".join(error.messages)) from None
    user.set_password(password)
    user.save()
    return user


def _password() -> str:
    if not sys.stdin.isatty():
        return sys.stdin.readline().rstrip("\r\n")
    first = getpass.getpass("Password: ")
    if first != getpass.getpass("Password (again): "):
        raise CommandError("the two passwords differ; nothing was changed")
    return first
