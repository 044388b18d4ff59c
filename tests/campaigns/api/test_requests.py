"""/runs/ID/requests: the request log as a file, streamed, in four formats that say the same."""

from __future__ import annotations

import asyncio
import csv
import io
import json
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from asgiref.sync import sync_to_async
from django.db import connections
from django.test import AsyncClient

from campaigns.models import Run, Scope, StageKind
from tests.campaigns.api.program import BASE, Program, error_of, make_run, make_stage

pytestmark = pytest.mark.django_db

TYPES = {
    "arrow": "application/vnd.apache.arrow.file",
    "parquet": "application/vnd.apache.parquet",
    "csv": "text/csv; charset=utf-8",
    "jsonl": "application/jsonl",
}


def recorded_run() -> Run:
    run = make_run()
    make_stage(run, 0, users=1, requests=2, kind=StageKind.BASELINE)
    make_stage(run, 1, users=5, requests=3)
    return run


def rows_of(kind: str, content: bytes) -> list[dict[str, Any]]:
    match kind:
        case "arrow":
            return list(pa.ipc.open_file(content).read_all().to_pylist())
        case "parquet":
            return list(pq.read_table(io.BytesIO(content)).to_pylist())
        case "jsonl":
            return [json.loads(line) for line in content.splitlines()]
        case _:
            return list(csv.DictReader(io.StringIO(content.decode(), newline="")))


@pytest.mark.parametrize("kind", TYPES)
def test_each_format_holds_every_request_of_every_whole_stage(kind: str) -> None:
    run = recorded_run()
    response = Program(Scope.READ).get(f"/runs/{run.pk}/requests?format={kind}")
    assert response.status_code == 200
    assert response["Content-Type"] == TYPES[kind]
    assert response["Content-Disposition"] == f'attachment; filename="brimline-run-{run.pk}-requests.{kind}"'
    rows = rows_of(kind, response.getvalue())
    assert [(int(row["stage"]), row["kind"], int(row["concurrency"]), row["request_id"]) for row in rows] == [
        (0, "baseline", 1, "0-0"),
        (0, "baseline", 1, "0-1"),
        (1, "ladder", 5, "1-0"),
        (1, "ladder", 5, "1-1"),
        (1, "ladder", 5, "1-2"),
    ]
    assert rows[0]["cached_tokens"] == ("" if kind == "csv" else None)
    assert rows[0]["error"] == ("'=1+1" if kind == "csv" else "=1+1")


def test_arrow_is_the_format_when_none_is_named() -> None:
    response = Program(Scope.READ).get(f"/runs/{recorded_run().pk}/requests")
    assert response["Content-Type"] == TYPES["arrow"]


def test_an_unknown_format_is_named_with_the_known_ones() -> None:
    error = error_of(Program(Scope.READ).get(f"/runs/{recorded_run().pk}/requests?format=xlsx"), 422)
    assert list(error["fields"]) == ["format"]
    assert all(kind in error["message"] for kind in TYPES)


def test_a_run_without_a_whole_stage_has_nothing_to_download() -> None:
    error_of(Program(Scope.READ).get(f"/runs/{make_run().pk}/requests"), 409)


@pytest.mark.django_db(transaction=True)
def test_the_server_sends_piece_after_piece() -> None:
    run, program = recorded_run(), Program(Scope.READ)

    async def download() -> list[bytes]:
        path = f"{BASE}/runs/{run.pk}/requests?format=jsonl"
        response: Any = await AsyncClient().get(path, headers=program.headers)
        assert response.streaming and response.is_async
        pieces = [piece async for piece in response]
        # The server's thread keeps its connection; the test's database must be free to be dropped.
        await sync_to_async(connections.close_all)()
        return pieces

    pieces = asyncio.run(download())
    assert [len(rows_of("jsonl", piece)) for piece in pieces] == [2, 3]
