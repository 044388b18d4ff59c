"""Saves a row whose name must be unique, so that two people who take a name at once both hear it plainly."""

from __future__ import annotations

from django.db import IntegrityError, models, transaction

from campaigns.services.errors import InvalidInput


def save_named(row: models.Model, constraint: str) -> None:
    """Save `row`; raises InvalidInput on its field `name` when the unique constraint named `constraint` refuses it."""
    try:
        with transaction.atomic():
            row.save()
    except IntegrityError as error:
        if constraint not in str(error):
            raise
        kind = row._meta.verbose_name
        message = f"is taken: another {kind} has this name; choose another one"
        raise InvalidInput(f"name {message}", {"name": [message]}) from None
