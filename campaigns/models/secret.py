"""A text field that is encrypted at rest. It decides the encryption and the key rotation; it never shows a value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import models


class SecretUnreadable(Exception):
    """The stored secret was encrypted with a key that BRIMLINE_FIELD_KEYS no longer holds."""


def _cipher() -> MultiFernet:
    if not settings.FIELD_KEYS:
        raise ImproperlyConfigured(
            "BRIMLINE_FIELD_KEYS is not set, so secrets cannot be stored or read. `manage.py up` makes one; elsewhere "
            "set it to 32 random bytes in URL-safe base64 (cryptography's Fernet.generate_key())."
        )
    try:
        return MultiFernet([Fernet(key) for key in settings.FIELD_KEYS])
    except ValueError:
        raise ImproperlyConfigured(
            "BRIMLINE_FIELD_KEYS must be Fernet keys (44 characters of URL-safe base64)"
        ) from None


class Secret:
    """A text that does not show itself when it is printed, logged or put into a template."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """The text itself; only for the one place that sends it."""
        return self._text

    def sealed(self) -> bytes:
        """Encrypted, as the database keeps it."""
        return _cipher().encrypt(self._text.encode())

    def __bool__(self) -> bool:
        return bool(self._text)

    def __str__(self) -> str:
        return "••••" if self else ""

    __repr__ = __str__


class StoredSecret(Secret):
    """A secret as the database holds it: opened only when it is asked for, so that one which cannot be opened breaks
    its own use and not every page that lists its row."""

    __slots__ = ("_place", "_token")

    def __init__(self, token: bytes, place: str) -> None:
        self._token = token
        self._place = place

    def __bool__(self) -> bool:
        return True

    def reveal(self) -> str:
        """Raises SecretUnreadable when no key in BRIMLINE_FIELD_KEYS opens it."""
        try:
            return _cipher().decrypt(self._token).decode()
        except InvalidToken:
            raise SecretUnreadable(
                f"{self._place} was encrypted with another key: put the old key back behind the new one in "
                "BRIMLINE_FIELD_KEYS, or enter the secret again"
            ) from None

    def sealed(self) -> bytes:
        """Under the newest key where it can be opened, else as it is."""
        try:
            return _cipher().rotate(self._token)
        except InvalidToken:
            return self._token


if TYPE_CHECKING:
    _Binary = models.BinaryField[Secret | str, Secret]
else:
    _Binary = models.BinaryField


class SecretField(_Binary):
    """Stores Fernet tokens; holds `Secret` in Python, assigned as a `Secret` or a str. Empty is stored as null."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs.update(null=True, blank=True, editable=False)
        super().__init__(*args, **kwargs)

    def from_db_value(self, value: Any, expression: object, connection: object) -> Secret:
        return Secret("") if value is None else StoredSecret(bytes(value), f"{self.model.__name__}.{self.name}")

    def to_python(self, value: Any) -> Any:
        return Secret(value) if isinstance(value, str) else value

    def get_prep_value(self, value: Any) -> bytes | None:
        secret = value if isinstance(value, Secret) else Secret(value or "")
        return secret.sealed() if secret else None

    def get_db_prep_value(self, value: Any, connection: Any, prepared: bool = False) -> Any:
        encrypted = value if prepared else self.get_prep_value(value)
        return None if encrypted is None else connection.Database.Binary(encrypted)

    def value_to_string(self, obj: models.Model) -> str:
        return ""
