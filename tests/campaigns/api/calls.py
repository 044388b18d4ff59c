"""Every call that the OpenAPI document names, so that what must hold for all of them is tested for all of them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from campaigns.api.urls import api
from campaigns.models import Scope
from tests.campaigns.api.program import BASE

DOCUMENT = api.get_openapi_schema(path_prefix=BASE)


@dataclass(frozen=True, slots=True)
class Call:
    method: str
    path: str  # with {target_id} and the like
    scope: Scope  # as its description says

    def address(self, pk: int) -> str:
        return re.sub(r"\{\w+\}", str(pk), self.path)

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


def _scope(description: str) -> Scope:
    found = re.search(r"Scope: (\w+)\.", description)
    assert found, description
    return Scope(found[1])


CALLS = [
    Call(method, path, _scope(call["description"]))
    for path, calls in DOCUMENT["paths"].items()
    for method, call in calls.items()
]
METHODS = ("get", "post", "put", "patch", "delete")
WRONG = [(method, path) for path, calls in DOCUMENT["paths"].items() for method in METHODS if method not in calls]
