"""Lists page by a keyset cursor: what is added or archived meanwhile neither repeats nor hides a row."""

from __future__ import annotations

from typing import Any

import pytest

from campaigns.models import Scope
from campaigns.services.mixes import archive_mix
from tests.campaigns.api.program import Program, error_of
from tests.campaigns.services.builders import make_mix

pytestmark = pytest.mark.django_db


def walk(program: Program, path: str, limit: int) -> list[list[dict[str, Any]]]:
    pages, cursor = [], ""
    while True:
        body = program.get(f"{path}?limit={limit}{cursor}").json()
        assert set(body) == {"items", "next"}
        pages.append(body["items"])
        if body["next"] is None:
            return pages
        cursor = f"&cursor={body['next']}"


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 200])
def test_pages_together_are_the_whole_list_newest_first(limit: int) -> None:
    made = [make_mix(name=f"mix {place}").pk for place in range(4)]
    pages = walk(Program(Scope.READ), "/mixes", limit)
    assert [mix["id"] for items in pages for mix in items] == made[::-1]
    assert all(len(items) == limit for items in pages[:-1])


def test_an_empty_list_has_no_next_page() -> None:
    for path in ("/targets", "/mixes", "/campaigns", "/runs"):
        assert Program(Scope.READ).get(path).json() == {"items": [], "next": None}


def test_paging_is_stable_while_rows_come_and_go() -> None:
    mixes = [make_mix(name=f"mix {place}") for place in range(4)]
    program = Program(Scope.READ)
    first = program.get("/mixes?limit=2").json()
    assert [mix["id"] for mix in first["items"]] == [mixes[3].pk, mixes[2].pk]
    make_mix(name="new")
    archive_mix(mixes[2])
    second = program.get(f"/mixes?limit=2&cursor={first['next']}").json()
    assert [mix["id"] for mix in second["items"]] == [mixes[1].pk, mixes[0].pk]
    assert second["next"] is None


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("limit=0", "limit"),
        ("limit=201", "limit"),
        ("limit=x", "limit"),
        ("limit=", "limit"),
        ("cursor=0", "cursor"),
        ("cursor=abc", "cursor"),
        ("cursor=99999999999999999999", "cursor"),
        ("curser=1", "curser"),
        ("limit=1&stat=running", "stat"),
    ],
)
@pytest.mark.parametrize("path", ["/targets", "/mixes", "/campaigns", "/runs"])
def test_a_wrong_parameter_is_named(path: str, query: str, field: str) -> None:
    error = error_of(Program(Scope.READ).get(f"{path}?{query}"), 422)
    assert list(error["fields"]) == [field]
    assert field in error["message"]
