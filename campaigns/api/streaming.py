"""Streams a file whose pieces are made one at a time, under ASGI as well as under WSGI."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, StreamingHttpResponse
from django.utils.http import content_disposition_header


def stream(request: HttpRequest, chunks: Iterator[bytes], content_type: str, filename: str) -> StreamingHttpResponse:
    # Under ASGI Django would read an ordinary iterator to its end before it sends the first byte.
    body = _one_by_one(chunks) if isinstance(request, ASGIRequest) else chunks
    response = StreamingHttpResponse(body, content_type=content_type)
    response["Content-Disposition"] = content_disposition_header(True, filename) or "attachment"
    return response


async def _one_by_one(chunks: Iterator[bytes]) -> AsyncIterator[bytes]:
    # In the request's own thread, which has the database connection.
    following = sync_to_async(lambda: next(chunks, None))
    while (chunk := await following()) is not None:
        yield chunk
