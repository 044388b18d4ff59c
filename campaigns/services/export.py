"""The request log of a run as one file: every whole stage, one after the other, a stage in memory at a time."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
from django.db import models

from campaigns.models import RequestLog, Run, StageState
from campaigns.services.csv_cells import cell
from campaigns.services.errors import Conflict, InvalidInput

ROWS_A_CHUNK = 5_000


@dataclass(frozen=True, slots=True)
class Export:
    chunks: Iterator[bytes]
    content_type: str
    filename: str


def export_requests(run: Run, format: str) -> Export:
    """The requests of all whole stages, with the columns stage, kind and concurrency in front of the log's own.

    `format`: arrow (IPC file), parquet, csv or jsonl. Raises InvalidInput for another one, Conflict when no stage is
    whole yet.
    """
    if format not in _FORMATS:
        message = f"must be one of {', '.join(_FORMATS)}"
        raise InvalidInput(f"format {message}", {"format": [message]})
    logs = RequestLog.objects.filter(stage__run=run, stage__state=StageState.DONE).order_by("stage__index")
    keys = list(logs.values_list("pk", flat=True))
    if not keys:
        raise Conflict(f"Run {run.pk} has no requests to export: no stage is whole yet")
    # Two workers of different versions may have written the log: the file has the columns of both.
    schema = pa.unify_schemas([_schema(logs, key) for key in keys], promote_options="permissive")
    tables = (_table(logs, key, schema) for key in keys)
    write, content_type = _FORMATS[format]
    return Export(write(tables, schema), content_type, f"brimline-run-{run.pk}-requests.{format}")


_STAGE = pa.schema([("stage", pa.int32()), ("kind", pa.string()), ("concurrency", pa.int32())])


def _schema(logs: models.QuerySet[RequestLog], key: int) -> pa.Schema:
    """The columns of the stage and those of the log, without dictionary encoding: an Arrow file allows one dictionary a
    column, and each stage has its own."""
    with pa.ipc.open_file(logs.get(pk=key).arrow) as reader:
        return pa.schema([*_STAGE, *(_plain(field) for field in reader.schema)])


def _plain(field: pa.Field) -> pa.Field:
    return field.with_type(field.type.value_type) if pa.types.is_dictionary(field.type) else field


def _table(logs: models.QuerySet[RequestLog], key: int, schema: pa.Schema) -> pa.Table:
    """One stage's rows in the columns of `schema`; what its log does not have is null."""
    log = logs.select_related("stage").get(pk=key)
    with pa.ipc.open_file(log.arrow) as reader:
        table = reader.read_all()
    known = {"stage": log.stage.index, "kind": log.stage.kind, "concurrency": log.stage.concurrency}
    columns = [
        table.column(field.name).cast(field.type)
        if field.name in table.column_names
        else pa.repeat(pa.scalar(known.get(field.name), field.type), table.num_rows)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


class _Outlet(io.RawIOBase):
    """What pyarrow's writers wrote since it was last taken."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._written = 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._written

    def write(self, data: object, /) -> int:
        part = bytes(memoryview(data))  # type: ignore[arg-type]
        self._parts.append(part)
        self._written += len(part)
        return len(part)

    def take(self) -> bytes:
        taken = b"".join(self._parts)
        self._parts.clear()
        return taken


def _arrow(tables: Iterator[pa.Table], schema: pa.Schema) -> Iterator[bytes]:
    outlet = _Outlet()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_file(outlet, schema, options=options) as writer:
        for table in tables:
            writer.write_table(table)
            yield outlet.take()
    yield outlet.take()


def _parquet(tables: Iterator[pa.Table], schema: pa.Schema) -> Iterator[bytes]:
    outlet = _Outlet()
    with pq.ParquetWriter(outlet, schema, compression="zstd") as writer:
        for table in tables:
            writer.write_table(table)
            yield outlet.take()
    yield outlet.take()


def _csv(tables: Iterator[pa.Table], schema: pa.Schema) -> Iterator[bytes]:
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(schema.names)
    for table in tables:
        for batch in table.to_batches(max_chunksize=ROWS_A_CHUNK):
            columns = [column.to_pylist() for column in batch.columns]
            writer.writerows([cell(value) for value in row] for row in zip(*columns, strict=True))
            yield text.getvalue().encode()
            text.seek(0)
            text.truncate()
    yield text.getvalue().encode()


def _jsonl(tables: Iterator[pa.Table], schema: pa.Schema) -> Iterator[bytes]:
    for table in tables:
        for batch in table.to_batches(max_chunksize=ROWS_A_CHUNK):
            yield b"".join(orjson.dumps(row) + b"\n" for row in batch.to_pylist())


_FORMATS: dict[str, tuple[Callable[[Iterator[pa.Table], pa.Schema], Iterator[bytes]], str]] = {
    "arrow": (_arrow, "application/vnd.apache.arrow.file"),
    "parquet": (_parquet, "application/vnd.apache.parquet"),
    "csv": (_csv, "text/csv; charset=utf-8"),
    "jsonl": (_jsonl, "application/jsonl"),
}
