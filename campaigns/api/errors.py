"""The one form in which the API says no, `{"error": {"code", "message", "fields"}}`, whoever found the error."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any

from django.core.exceptions import RequestDataTooBig, SuspiciousOperation
from django.core.signals import got_request_exception
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.utils.log import log_response
from django.views.decorators.csrf import csrf_exempt
from ninja import NinjaAPI
from ninja.errors import AuthenticationError, ValidationError

from campaigns.services.errors import ServiceError

PREFIX = "/api/v1/"

_MESSAGES = {
    HTTPStatus.BAD_REQUEST: "The request cannot be read",
    HTTPStatus.UNAUTHORIZED: "Send a valid token: Authorization: Bearer TOKEN (python manage.py token USER makes one)",
    HTTPStatus.FORBIDDEN: "This is not allowed",
    HTTPStatus.NOT_FOUND: f"There is nothing at this address; {PREFIX}docs lists the calls",
    HTTPStatus.METHOD_NOT_ALLOWED: f"This address does not take this method; {PREFIX}docs lists the calls",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "The body is too large",
    HTTPStatus.INTERNAL_SERVER_ERROR: "Brimline failed to answer; its log says why",
}


class Malformed(ServiceError):
    """The body is not the JSON it should be."""

    code = "bad_request"
    status = 400


class NotFound(ServiceError):
    code = "not_found"
    status = 404


class UnsupportedType(ServiceError):
    """The body has another content type than JSON."""

    code = "unsupported_media_type"
    status = 415


def answer(
    status: int, code: str = "", message: str = "", fields: Mapping[str, Sequence[str]] | None = None
) -> HttpResponse:
    """An error as a response; `code` and `message` default to what the status says."""
    known = HTTPStatus(status)
    response = JsonResponse(
        {
            "error": {
                "code": code or known.phrase.lower().replace(" ", "_"),
                "message": message or _MESSAGES.get(known, known.phrase),
                "fields": {field: list(messages) for field, messages in (fields or {}).items()},
            }
        },
        status=status,
    )
    if known is HTTPStatus.UNAUTHORIZED:
        response["WWW-Authenticate"] = 'Bearer realm="Brimline"'
    return response


def install(api: NinjaAPI) -> None:
    """Register what the API's operations may raise."""
    api.add_exception_handler(ServiceError, _service_error)
    api.add_exception_handler(ValidationError, _validation_error)
    api.add_exception_handler(AuthenticationError, lambda request, error: answer(401))
    api.add_exception_handler(Http404, lambda request, error: answer(404))
    api.add_exception_handler(RequestDataTooBig, lambda request, error: answer(413))
    api.add_exception_handler(SuspiciousOperation, lambda request, error: answer(400))
    api.add_exception_handler(Exception, _failure)


@csrf_exempt
def unknown(request: HttpRequest) -> HttpResponse:
    """The view of every address that no operation has."""
    return answer(404)


def _service_error(request: HttpRequest, error: Any) -> HttpResponse:
    return answer(error.status, error.code, error.message, error.fields)


def _validation_error(request: HttpRequest, error: Any) -> HttpResponse:
    """A parameter that pydantic refused: its place is (source, name, …)."""
    fields: dict[str, list[str]] = {}
    for one in error.errors:
        name = str(one["loc"][-1])
        fields.setdefault(name, []).append(one["msg"][:1].lower() + one["msg"][1:])
    words = "; ".join(f"{name}: {message}" for name, messages in fields.items() for message in messages)
    return answer(422, "invalid", words, fields)


def _failure(request: HttpRequest, error: Any) -> HttpResponse:
    """A fault of ours: told to the log and to who listens, as Django does for its pages; never to the caller."""
    got_request_exception.send(sender=None, request=request)
    response = answer(500)
    log_response("%s: %s", response.reason_phrase, request.path, response=response, request=request, exception=error)
    return response


class ApiErrors:
    """Middleware: an error below `PREFIX` that did not come from an operation (a wrong method, a refused host, a fault
    of another middleware) gets the form too, and keeps its headers."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        is_error = response.status_code >= 400 and request.path_info.startswith(PREFIX)
        if not is_error or response.headers.get("Content-Type", "").startswith("application/json"):
            return response
        worded = answer(response.status_code)
        for name, value in response.headers.items():
            if name not in {"Content-Type", "Content-Length"}:
                worded.headers.setdefault(name, value)
        # Django has logged it, and would again.
        worded._has_been_logged = getattr(response, "_has_been_logged", False)  # type: ignore[attr-defined]
        return worded
