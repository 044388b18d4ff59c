"""The one family of errors that services raise; pages and the API turn them into messages at the edge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


class ServiceError(Exception):
    """`message` says what is wrong and what to do; `fields` says so a field: {"stages": ["must rise"]}."""

    code = "error"
    status = 400

    def __init__(self, message: str, fields: Mapping[str, Sequence[str]] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.fields = {field: list(messages) for field, messages in (fields or {}).items()}


class InvalidInput(ServiceError):
    """What was sent cannot be used."""

    code = "invalid"
    status = 422


class Conflict(ServiceError):
    """What was asked does not go with the present state."""

    code = "conflict"
    status = 409


class Forbidden(ServiceError):
    """The person or token may not do this."""

    code = "forbidden"
    status = 403
