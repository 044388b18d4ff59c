"""Whole stages against a real server: what is sent when, what is measured, and how a stage ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from tests.loadgen.program import Program, plan_for, run
from tests.loadgen.server import Behaviour, Server
from workers.loadgen.records import LOG_FIELDS

OUTCOMES = ("ok", "timeout", "refused", "http_error", "connect_error", "stream_error", "cancelled")


@pytest.fixture
def server() -> Iterator[Server]:
    with Server().running() as server:
        yield server


def until(holds: Callable[[], Any], limit_s: float = 20) -> None:
    deadline = time.monotonic() + limit_s
    while not holds():
        assert time.monotonic() < deadline, "it never came to hold"
        time.sleep(0.005)


def mix_of(*classes: tuple[str, int, Any, Any], **more: Any) -> dict[str, Any]:
    keys = ("name", "weight", "input_tokens", "output_tokens")
    return {"classes": [dict(zip(keys, one, strict=True)) for one in classes]} | more


def test_a_stage_leaves_a_summary_that_follows_from_its_log(server: Server, tmp_path: Path) -> None:
    server.behaviour = Behaviour(ttft_ms=20, itl_ms=4)
    mix = mix_of(("a", 3, 40, 6), ("b", 1, 400, {"dist": "uniform", "min": 2, "max": 12}))
    ran = run(plan_for(server.base_url, 4, mix=mix, warmup_s=1, measure_s=1.5, keep_itl=True), tmp_path)
    assert ran.code == 0, ran.errors
    summary, rows = ran.summary, ran.rows
    assert ran.table.column_names == [field.name for field in LOG_FIELDS] + ["itl_ns"]
    assert summary["requests"]["ok"] == summary["requests"]["measured"] > 20
    start, end = 1_000_000_000, 2_500_000_000
    ok = [row for row in rows if row["measured"] and row["outcome"] == "ok"]
    assert [row["measured"] for row in rows] == [start <= row["t_sent_ns"] < end for row in rows]
    assert [row["t_sent_ns"] for row in rows] == sorted(row["t_sent_ns"] for row in rows)
    assert summary["requests"]["sent"] == len(rows) == len(server.seen)
    assert summary["requests"]["measured"] == sum(summary["requests"][outcome] for outcome in OUTCOMES)

    def check(found: dict[str, Any] | None, values: list[float]) -> None:
        assert found is not None
        assert found["count"] == len(values)
        for stat, expected in (
            ("p50", np.percentile(values, 50)),
            ("p99", np.percentile(values, 99)),
            ("mean", np.mean(values)),
            ("max", max(values)),
        ):
            assert found[stat] == pytest.approx(expected)

    for among, found in [
        (ok, summary),
        *(([row for row in ok if row["class"] == name], summary["per_class"][name]) for name in "ab"),
    ]:
        check(found["ttft_ms"], [(row["t_first_ns"] - row["t_sent_ns"]) / 1e6 for row in among])
        check(found["e2e_ms"], [(row["t_end_ns"] - row["t_sent_ns"]) / 1e6 for row in among])
        check(
            found["tpot_ms"],
            [(row["t_last_ns"] - row["t_first_ns"]) / (row["output_tokens"] - 1) / 1e6 for row in among],
        )
        check(found["itl_ms"], [gap / 1e6 for row in among for gap in row["itl_ns"]])
    inside = sum(max(0, min(row["t_end_ns"], end) - max(row["t_sent_ns"], start)) for row in rows)
    assert summary["in_flight_mean"] == pytest.approx(inside / (end - start))
    completed = [row for row in rows if start <= row["t_end_ns"] < end and row["outcome"] == "ok"]
    assert summary["requests_per_s"] == pytest.approx(len(completed) / 1.5)
    arrived = sum(
        start <= time_ns < end
        for row in rows
        if row["t_first_ns"]
        for time_ns in row["t_first_ns"] + np.cumsum([0, *row["itl_ns"]])
    )
    assert summary["output_tokens_per_s"] == pytest.approx(arrived / 1.5)
    assert summary["token_source"] == "usage"
    assert summary["window_s"] == 1.5
    # The client's times against the server's own, which it can only exceed by the way there and back.
    by_id = {seen.headers["x-request-id"]: seen for seen in server.seen}
    for row in ok:
        seen = by_id[row["request_id"]]
        assert seen.first_ns is not None
        assert (row["t_first_ns"] - row["t_sent_ns"]) >= 20e6
        assert row["input_tokens"] == seen.prompt_tokens
        assert row["output_tokens"] == seen.body["max_tokens"]
    assert summary["ttft_ms"]["p50"] < 20 + 50


def test_the_concurrency_is_held_and_the_shares_of_the_mix_are_exact(server: Server, tmp_path: Path) -> None:
    server.behaviour = Behaviour(ttft_ms=30, itl_ms=3)
    mix = mix_of(("a", 3, 20, 5), ("b", 1, 20, 9))
    summary = run(plan_for(server.base_url, 8, mix=mix, measure_s=1.2), tmp_path).summary
    assert server.in_flight_max == server.connections == 8
    assert 8 * 0.8 < summary["in_flight_mean"] <= 8
    sent = {name: found["requests"]["sent"] for name, found in summary["per_class"].items()}
    assert abs(sent["a"] - 3 * sent["b"]) <= 3 + 8
    assert summary["client"]["lateness_ms"]["p50"] < 50
    assert summary["transport"] == "wire"


def test_first_sends_are_spread_over_half_of_the_warm_up(server: Server, tmp_path: Path) -> None:
    server.behaviour = Behaviour(ttft_ms=3000)
    rows = run(plan_for(server.base_url, 10, warmup_s=1, measure_s=0.1, drain_s=0), tmp_path).rows
    assert len(rows) == 10
    due_ms = [row["t_due_ns"] / 1e6 for row in rows]
    assert due_ms[0] == 0
    assert all(50 * slot <= due < 50 * (slot + 1) for slot, due in enumerate(due_ms))
    assert all(row["t_sent_ns"] >= row["t_due_ns"] for row in rows)


def test_without_a_warm_up_all_start_at_once(server: Server, tmp_path: Path) -> None:
    rows = run(plan_for(server.base_url, 5, warmup_s=0, max_requests=5), tmp_path).rows
    assert [row["t_due_ns"] for row in rows] == [0] * 5
    assert all(row["measured"] for row in rows)


def test_load_is_kept_up_until_the_cohort_has_ended(server: Server, tmp_path: Path) -> None:
    server.behaviour = Behaviour(ttft_ms=10, itl_ms=8)
    mix = mix_of(("short", 3, 20, 2), ("long", 1, 20, 100))
    ran = run(plan_for(server.base_url, 4, mix=mix, measure_s=0.6), tmp_path)
    rows = ran.rows
    assert all(row["outcome"] == "ok" for row in rows if row["measured"])
    last_end = max(row["t_end_ns"] for row in rows if row["measured"])
    assert any(row["t_sent_ns"] > 900_000_000 and not row["measured"] and row["outcome"] == "ok" for row in rows)
    cut = [row for row in rows if row["outcome"] == "cancelled"]
    assert all(not row["measured"] and row["t_end_ns"] >= last_end for row in cut)
    assert {event["phase"] for event in ran.events if event["event"] == "progress"} >= {"drain"}


def test_the_drain_limit_cuts_what_is_left_and_says_so(server: Server, tmp_path: Path) -> None:
    server.behaviour = Behaviour(ttft_ms=10, itl_ms=300)
    ran = run(plan_for(server.base_url, 3, drain_s=0.2, warmup_s=0), tmp_path)
    summary = ran.summary
    assert ran.code == 0
    assert summary["requests"]["cancelled"] == summary["requests"]["measured"] == 3
    assert {row["error"] for row in ran.rows} == {"cut by drain limit"}
    assert (summary["ttft_ms"], summary["tpot_ms"], summary["token_source"], summary["requests_per_s"]) == (
        None,
        None,
        None,
        0,
    )
    assert summary["output_tokens_per_s"] > 0
    until(lambda: server.in_flight == 0)


@pytest.mark.parametrize("processes", [1, 2])
def test_a_stage_ends_when_its_number_of_requests_has(server: Server, tmp_path: Path, processes: int) -> None:
    ran = run(plan_for(server.base_url, 3, max_requests=11, measure_s=30, processes=processes, drain_s=0), tmp_path)
    assert ran.summary["requests"]["sent"] == len(server.seen) == 11
    assert Counter(row["outcome"] for row in ran.rows) == {"ok": 11}
    assert ran.summary["window_s"] < 30


def test_several_processes_share_the_slots_and_their_rows_are_merged(server: Server, tmp_path: Path) -> None:
    server.behaviour = Behaviour(ttft_ms=20, itl_ms=2, fail="error", fail_every=10)
    ran = run(plan_for(server.base_url, 7, processes=2, warmup_s=1, measure_s=1.2), tmp_path)
    assert ran.code == 0, ran.errors
    summary = ran.summary
    assert server.in_flight_max == 7
    assert 7 * 0.6 < summary["in_flight_mean"] <= 7
    assert summary["client"]["processes"] == 2
    assert summary["requests"]["sent"] == len(ran.rows) == len(server.seen)
    assert {row["request_id"] for row in ran.rows} == {seen.headers["x-request-id"] for seen in server.seen}
    assert (
        summary["requests"]["stream_error"]
        == sum(row["measured"] and "CUDA" in (row["error"] or "") for row in ran.rows)
        > 0
    )
    progress = [event for event in ran.events if event["event"] == "progress"]
    assert len(progress) >= 2
    assert max(event["in_flight"] for event in progress) > 4
    assert progress[-1]["completed"] <= len(ran.rows)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["plan.json", "requests.arrow", "summary.json"]


def test_each_second_brings_one_progress_event(server: Server, tmp_path: Path) -> None:
    ran = run(plan_for(server.base_url, 2, warmup_s=1, measure_s=2), tmp_path)
    assert [event["event"] for event in ran.events[:1]] == ["started"]
    progress = [event for event in ran.events if event["event"] == "progress"]
    assert [round(event["t_s"]) for event in progress] == list(range(1, len(progress) + 1))
    assert len(progress) >= 3
    for event in progress:
        assert event["completed"] == sum(event["by_outcome"].values())
        assert event["in_flight"] <= 2
    middle = progress[1]
    assert middle["output_tokens_per_s"] > 0
    assert middle["requests_per_s"] > 0
    assert middle["ttft_ms_p50"] >= 5
    assert middle["tpot_ms_p50"] > 0


def test_an_open_loop_counts_from_the_time_due(server: Server, tmp_path: Path) -> None:
    server.behaviour = Behaviour(ttft_ms=100, itl_ms=1)
    load = {"kind": "open", "rate_rps": 50, "arrivals": "constant", "max_outstanding": 2}
    ran = run(plan_for(server.base_url, load=load, drain_s=30), tmp_path)
    assert ran.code == 0, ran.errors
    rows, summary = ran.rows, ran.summary
    assert sorted(row["t_due_ns"] for row in rows)[:5] == [0, 20_000_000, 40_000_000, 60_000_000, 80_000_000]
    assert server.in_flight_max == 2
    ok = [row for row in rows if row["measured"] and row["outcome"] == "ok"]
    assert len(ok) == 35
    assert all(300_000_000 <= row["t_due_ns"] < 1_000_000_000 for row in ok)
    assert summary["ttft_ms"]["p50"] == pytest.approx(
        np.median([(row["t_first_ns"] - row["t_due_ns"]) / 1e6 for row in ok])
    )
    assert summary["ttft_ms"]["p50"] > 300
    assert summary["client"]["capped"] > 0


def test_poisson_arrivals_are_the_same_for_a_seed(server: Server, tmp_path: Path) -> None:
    plan = plan_for(server.base_url, load={"kind": "open", "rate_rps": 60}, max_requests=30)
    first = [row["t_due_ns"] for row in run(plan, tmp_path).rows]
    assert sorted(first) == sorted(row["t_due_ns"] for row in run(plan, tmp_path).rows)
    assert len(set(np.diff(sorted(first)))) > 20


@pytest.mark.parametrize(
    ("behaviour", "outcome", "status", "words"),
    [
        (Behaviour(fail="401"), "http_error", 401, "HTTP 401: refused"),
        (Behaviour(fail="500"), "http_error", 500, "HTTP 500"),
        (Behaviour(fail="429", retry_after="0.1"), "refused", 429, "HTTP 429"),
        (Behaviour(fail="reset"), "connect_error", None, "before it answered"),
        (Behaviour(fail="cut"), "stream_error", 200, "cut short"),
        (Behaviour(fail="error"), "stream_error", 200, "CUDA out of memory"),
        (Behaviour(fail="redirect"), "http_error", 308, "redirected to http://elsewhere/v1;"),
        (Behaviour(fail="hang"), "timeout", None, "within 0.2 s"),
        (Behaviour(ttft_ms=1, itl_ms=500), "timeout", 200, "within 0.2 s"),
    ],
)
def test_every_failure_is_one_outcome_with_its_reason(
    server: Server, tmp_path: Path, behaviour: Behaviour, outcome: str, status: int | None, words: str
) -> None:
    server.behaviour = behaviour
    ran = run(plan_for(server.base_url, warmup_s=0, timeout_s=0.2, max_requests=3), tmp_path)
    assert ran.code == 0
    assert ran.summary["requests"][outcome] == ran.summary["requests"]["measured"] == 3
    for row in ran.rows:
        assert (row["outcome"], row["http_status"]) == (outcome, status)
        assert words in row["error"]
        assert "secret" not in row["error"]


def test_a_refusing_server_is_not_hammered(server: Server, tmp_path: Path) -> None:
    server.behaviour = Behaviour(fail="429", retry_after="3600")
    ran = run(plan_for(server.base_url, 4, drain_s=0), tmp_path)
    assert len(server.seen) == 4
    server.behaviour = Behaviour(fail="500")
    ran = run(plan_for(server.base_url, 4, drain_s=0), tmp_path)
    assert 4 < len(server.seen) - 4 < 40
    assert ran.summary["in_flight_mean"] < 3


def test_retries_are_attempts_of_one_request(server: Server, tmp_path: Path) -> None:
    server.behaviour = Behaviour(fail="500", fail_every=2)
    rows = run(plan_for(server.base_url, 1, retries=2, max_requests=4, warmup_s=0), tmp_path).rows
    assert [(row["attempt"], row["outcome"]) for row in rows] == [
        (1, "ok"), (1, "http_error"), (2, "ok"), (1, "http_error"), (2, "ok"), (1, "http_error"), (2, "ok")
    ]  # fmt: skip
    assert len({row["request_id"] for row in rows}) == 4


def test_a_server_that_closes_idle_connections_costs_no_request(server: Server, tmp_path: Path) -> None:
    server.behaviour = Behaviour(idle_close_after=2)
    ran = run(plan_for(server.base_url, 2, max_requests=12), tmp_path)
    assert Counter(row["outcome"] for row in ran.rows) == {"ok": 12}
    assert server.connections >= 6
    assert sum(row["connect_ms"] is not None for row in ran.rows) >= 5


def test_prompts_are_as_long_as_asked_after_the_warm_up(server: Server, tmp_path: Path) -> None:
    mix = mix_of(("a", 1, 60, 2), ("b", 1, 900, 2))
    ran = run(plan_for(server.base_url, 2, mix=mix, warmup_s=0.5), tmp_path)
    for name, asked in (("a", 60), ("b", 900)):
        found = ran.summary["per_class"][name]
        assert found["input_tokens"]["p50"] == pytest.approx(asked, rel=0.05)
        assert found["planned_input_tokens"]["p50"] == asked
    calibration = ran.summary["calibration"]
    assert calibration["requests"] > 0
    again = run(
        plan_for(
            server.base_url,
            2,
            mix=mix,
            warmup_s=0,
            max_requests=4,
            calibration={key: calibration[key] for key in ("words_per_token", "overhead_tokens")},
        ),
        tmp_path,
    )
    assert again.summary["per_class"]["b"]["input_tokens"]["p50"] == pytest.approx(900, rel=0.05)


def test_sizes_are_the_same_in_every_stage_and_prompts_never(server: Server, tmp_path: Path) -> None:
    lengths = {"dist": "lognormal", "median": 50, "sigma": 1, "max": 500}
    plan = plan_for(
        server.base_url, 1, mix=mix_of(("a", 1, lengths, {"dist": "uniform", "min": 1, "max": 9})), max_requests=8
    )
    for _ in range(2):
        run(plan, tmp_path)
    asked = [seen.body["max_tokens"] for seen in server.seen]
    assert asked[:8] == asked[8:]
    assert len({seen.body["messages"][0]["content"].split()[0] for seen in server.seen}) == 16


def test_without_usage_events_are_counted_and_named(server: Server, tmp_path: Path) -> None:
    server.behaviour = Behaviour(usage=False, tokens_an_event=3)
    summary = run(plan_for(server.base_url, 1, max_requests=3, warmup_s=0), tmp_path).summary
    assert (summary["token_source"], summary["per_class"]["a"]["output_tokens"]["p50"]) == ("events", 2)
    server.behaviour = Behaviour(tokens_an_event=3, stop_after=4)
    summary = run(plan_for(server.base_url, 1, max_requests=3, warmup_s=0), tmp_path).summary
    assert (summary["token_source"], summary["per_class"]["a"]["output_tokens"]["p50"]) == ("usage", 4)
    assert summary["per_class"]["a"]["planned_output_tokens"]["p50"] == 5


def test_the_key_is_sent_and_never_shown(server: Server, tmp_path: Path) -> None:
    server.behaviour = Behaviour(key="right")
    key = "sk-hunter2-hunter2"
    plan = plan_for(
        server.base_url, 1, max_requests=1, warmup_s=0, api_key_env="A_KEY", headers={"X-Tenant": "tenant-secret"}
    )
    ran = run(plan, tmp_path, A_KEY=key)
    assert server.seen[0].headers["authorization"] == f"Bearer {key}"
    assert server.seen[0].headers["x-tenant"] == "tenant-secret"
    row = ran.rows[0]
    assert (row["outcome"], row["error"]) == ("http_error", "HTTP 401: refused, the key was Bearer [redacted]")
    assert key not in ran.errors + str(ran.events)


def test_a_bad_plan_ends_with_2_and_lists_what_is_wrong(tmp_path: Path) -> None:
    ran = run(plan_for("h:80", warmup=1), tmp_path)
    assert (ran.code, ran.events) == (2, [])
    assert "base_url" not in ran.errors  # types first, then what they mean
    assert "did you mean warmup_s" in ran.errors
    ran = run(plan_for("http://h", api_key_env="NO_SUCH_KEY_HERE"), tmp_path)
    assert ran.code == 2
    assert "NO_SUCH_KEY_HERE is not set" in ran.errors
    ran = run(plan_for("http://h", mix={"classes": [{"name": "f", "prompts": "none.jsonl"}]}), tmp_path)
    assert ran.code == 2
    assert "none.jsonl" in ran.errors


@pytest.mark.parametrize("processes", [1, 2])
def test_nothing_sent_ends_with_3_and_a_summary(tmp_path: Path, processes: int) -> None:
    ran = run(plan_for("http://127.0.0.1:1", drain_s=0, processes=processes), tmp_path)
    assert ran.code == 3, ran.errors
    requests = ran.summary["requests"]
    assert requests["sent"] == 0
    assert requests["connect_error"] == requests["measured"]
    assert all(row["t_sent_ns"] is None and "127.0.0.1 port 1" in row["error"] for row in ran.rows)
    assert ran.summary["in_flight_mean"] == 0


@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_stage_at_once_and_keeps_what_there_is(
    server: Server, tmp_path: Path, number: signal.Signals, processes: int
) -> None:
    server.behaviour = Behaviour(ttft_ms=5, itl_ms=100)
    program = Program(plan_for(server.base_url, 4, warmup_s=0.1, measure_s=600, processes=processes), tmp_path)
    until(lambda: len(server.seen) > 6)
    program.process.send_signal(number)
    asked = time.monotonic()
    ran = program.finish()
    assert time.monotonic() - asked < 10  # 1 s on a machine that is free
    assert ran.code == 0, ran.errors
    assert ran.summary["cancelled"] is True
    assert Counter(row["outcome"] for row in ran.rows)["cancelled"] <= 4
    assert len(ran.rows) == len(server.seen)
    assert 0 < ran.summary["window_s"] < 60
    until(lambda: server.in_flight == 0)


def test_a_stage_ends_with_its_parent_when_asked(server: Server, tmp_path: Path) -> None:
    server.behaviour = Behaviour(itl_ms=100)
    plan = tmp_path / "plan.json"
    script = (
        "import json, subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-m', 'workers.loadgen', sys.argv[1], '--out', sys.argv[2],"
        " '--stop-with-parent'], stdout=subprocess.DEVNULL)\n"
        "print(child.pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    plan.write_text(json.dumps(plan_for(server.base_url, 2, measure_s=600)))
    parent = subprocess.Popen(
        [sys.executable, "-c", script, str(plan), str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    try:
        until(lambda: len(server.seen) > 1)
        parent.kill()
        parent.wait()
        until(lambda: (tmp_path / "summary.json").exists())
        until(lambda: server.in_flight == 0)
    finally:
        parent.kill()
        parent.wait()
        if Path(f"/proc/{child}").exists():
            os.kill(child, signal.SIGKILL)


def children_of(process: subprocess.Popen[str]) -> list[int]:
    return [child.pid for child in psutil.Process(process.pid).children()]


def test_a_lost_process_of_a_stage_fails_the_stage(server: Server, tmp_path: Path) -> None:
    program = Program(plan_for(server.base_url, 4, measure_s=600, processes=2), tmp_path)
    until(lambda: len(server.seen) > 4)
    first, second = children_of(program.process)
    os.kill(first, signal.SIGKILL)
    ran = program.finish()
    assert ran.code == 1
    assert "ended with exit code -9" in ran.errors
    assert not (tmp_path / "summary.json").exists()
    until(lambda: not psutil.pid_exists(second))


def test_the_processes_of_a_stage_end_with_the_one_that_leads(server: Server, tmp_path: Path) -> None:
    program = Program(plan_for(server.base_url, 4, measure_s=600, processes=2), tmp_path)
    until(lambda: len(server.seen) > 4)
    children = children_of(program.process)
    program.process.kill()
    until(lambda: not any(psutil.pid_exists(child) for child in children))
    program.finish()


def test_the_test_server_is_a_program_too(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "tests.loadgen.server",
        "--port",
        "0",
        "--print-port",
        "--ttft-ms",
        "1",
        "--no-usage",
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        summary = run(plan_for(f"http://127.0.0.1:{port}", max_requests=4, warmup_s=0), tmp_path).summary
        assert (summary["requests"]["ok"], summary["token_source"]) == (4, "events")
    finally:
        process.kill()
        process.communicate()


def test_a_reader_that_went_away_does_not_stop_the_stage(server: Server, tmp_path: Path) -> None:
    program = Program(plan_for(server.base_url, warmup_s=1.2, measure_s=1), tmp_path)
    assert program.process.stdout is not None
    program.process.stdout.close()
    assert program.process.wait(30) == 0
    assert (tmp_path / "summary.json").exists()


def test_the_log_is_small(server: Server, tmp_path: Path) -> None:
    server.behaviour = Behaviour(ttft_ms=0, itl_ms=0)
    ran = run(plan_for(server.base_url, 16, max_requests=3000, measure_s=60), tmp_path)
    assert len(ran.rows) == 3000
    assert (tmp_path / "requests.arrow").stat().st_size / 3000 < 100
    metadata = {key.decode(): value.decode() for key, value in ran.table.schema.metadata.items()}
    assert (metadata["brimline.format"], metadata["brimline.seed"], metadata["brimline.processes"]) == ("1", "1", "1")
    assert metadata["brimline.started_at"] == ran.summary["started_at"]
    assert metadata["brimline.window_start_ns"] == "300000000"
