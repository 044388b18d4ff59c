"""Writes and reads the request log: an Arrow IPC file with zstd, one row a request, the columns of a contract."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from workers.loadgen.records import ITL_FIELD, LOG_FIELDS

FORMAT_VERSION = "1"
_COMPRESSION = pa.Codec("zstd", compression_level=9)


def write_log(table: pa.Table, path: Path, keep_itl: bool, metadata: dict[str, str]) -> None:
    """The log's columns of `table`, as one record batch; `metadata` goes into the schema beside the version."""
    fields = [*LOG_FIELDS, ITL_FIELD] if keep_itl else LOG_FIELDS
    kept = table.select([field.name for field in fields])
    write_table(kept.replace_schema_metadata({"brimline.format": FORMAT_VERSION} | metadata), path)


def write_table(table: pa.Table, path: Path) -> None:
    options = pa.ipc.IpcWriteOptions(compression=_COMPRESSION, unify_dictionaries=True)
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema, options=options) as writer:
        writer.write_table(table.combine_chunks())


def read_log(path: Path) -> pa.Table:
    with pa.memory_map(str(path)) as source:
        return pa.ipc.open_file(source).read_all()
