"""Answers and surroundings that once ended a stage, or gave it wrong times: each must end as data."""

from __future__ import annotations

import asyncio
import json
import struct
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from time import monotonic_ns, time_ns

import pytest
import uvloop

from tests.loadgen.program import plan_for, run
from tests.loadgen.server import Behaviour, Server
from workers.loadgen.__main__ import main
from workers.loadgen.answer import Answer, Outcome
from workers.loadgen.backoff import Backoff, retry_after_s
from workers.loadgen.payload import read_payload
from workers.loadgen.poller import Poller
from workers.loadgen.records import _Labels


def test_half_a_surrogate_pair_is_a_label_like_any_other() -> None:
    labels = _Labels()
    assert labels.code("\ud800") == 0
    assert [text.encode() for text in labels] == [b"?"]


def test_thousands_of_failures_in_a_row_only_wait_the_longest() -> None:
    answer = Answer()
    answer.fail(Outcome.HTTP_ERROR, "", 0)
    backoff = Backoff(Random(1), 10.0)
    assert max(backoff.after(answer, datetime.now(UTC)) for _ in range(3000)) <= 10.0


def test_a_date_beyond_all_dates_asks_for_nothing() -> None:
    assert retry_after_s("Wed, 21 Oct 2015 07:28:00 +99999999999999999999999", datetime.now(UTC)) is None


@pytest.mark.parametrize("deep", ['{"error":' * 984 + "1" + "}" * 984, '{"error":' + "[" * 900 + "]" * 900 + "}"])
def test_a_deep_error_is_an_error(deep: str) -> None:
    reading = read_payload(deep.encode())
    assert reading is not None and reading.error


@pytest.mark.parametrize("usage", [[], "n/a", 3, {"completion_tokens": "x"}])
def test_usage_of_another_kind_is_no_usage_and_no_error(usage: object) -> None:
    reading = read_payload(json.dumps({"choices": [{"delta": {"content": "a"}}], "usage": usage}).encode())
    assert reading is not None and reading.output and reading.error is None


@pytest.mark.parametrize("off_ms", [-300, 300, 30_000, 3_600_000])
def test_a_clock_set_between_two_rounds_gives_no_time_of_before(monkeypatch: pytest.MonkeyPatch, off_ms: int) -> None:
    async def test() -> None:
        poller = Poller(asyncio.get_running_loop())
        poller._round()
        stamp = struct.pack("@qq", *divmod(time_ns(), 1_000_000_000))
        monkeypatch.setattr("workers.loadgen.poller.time_ns", lambda: time_ns() + off_ms * 1_000_000)
        before_ns = monotonic_ns()
        poller._round()
        assert before_ns - 50_000_000 <= poller.stamp_ns([(1, 35, stamp)]) <= monotonic_ns()
        assert poller.receiving().unstamped == 1

    uvloop.run(test())


def test_arrivals_faster_than_the_client_end_with_the_stage(tmp_path: Path) -> None:
    with Server(Behaviour(ttft_ms=1)).running() as server:
        load = {"kind": "open", "rate_rps": 200_000, "arrivals": "constant", "max_outstanding": 4}
        ran = run(plan_for(server.base_url, load=load, warmup_s=0.2, measure_s=0.5, drain_s=0.5), tmp_path)
    assert ran.summary["client"]["capped"] > 0


def test_waiting_for_a_place_is_not_the_clients_lateness(tmp_path: Path) -> None:
    with Server(Behaviour(ttft_ms=300)).running() as server:
        load = {"kind": "open", "rate_rps": 20, "arrivals": "constant", "max_outstanding": 1}
        ran = run(plan_for(server.base_url, load=load, warmup_s=0.2, measure_s=2, drain_s=1), tmp_path)
    lateness = [row for row in ran.table.to_pylist() if row["t_sent_ns"] and row["t_sent_ns"] - row["t_due_ns"] > 5e8]
    assert lateness and ran.summary["client"]["lateness_ms"]["p50"] < 300


def test_what_cannot_be_written_shows_before_the_load(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    (out / "requests.arrow").mkdir(parents=True)
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps(plan_for("http://127.0.0.1:9/v1")))
    assert main([str(plan), "--out", str(out)]) == 2
    assert "cannot be used" in capsys.readouterr().err
