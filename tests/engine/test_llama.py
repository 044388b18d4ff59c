"""What Brimline measures on a real engine is what the engine says of itself, request by request."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from campaigns.models import RequestLog, RunState
from campaigns.services.inputs import LaunchInput
from campaigns.services.launch import launch_run
from campaigns.services.plans import create_campaign
from tests.campaigns.services.builders import campaign_input, make_mix, make_target, make_user
from tests.engine.llama import MODEL, SLOTS, Engine
from workers.conductor import conduct

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("engine")]

MIX = [
    {"name": "short", "weight": 1, "input_tokens": 60, "output_tokens": 40},
    {"name": "long", "weight": 1, "input_tokens": 150, "output_tokens": 120},
]


def rows_of(arrow: bytes) -> list[dict[str, Any]]:
    return pa.ipc.open_file(pa.BufferReader(arrow)).read_all().to_pylist()


def test_counts_and_times_of_each_request_are_the_engines_own(llama: Engine, tmp_path: Path) -> None:
    before = len(llama.timings())
    plan = {
        "base_url": llama.base_url,
        "model": MODEL,
        "load": {"kind": "closed", "concurrency": 1},
        "warmup_s": 0,
        "measure_s": 600,
        "max_requests": 24,
        "mix": {"classes": MIX},
        "request": {"temperature": 0, "ignore_eos": True},
    }
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    command = [sys.executable, "-m", "workers.loadgen", str(tmp_path / "plan.json"), "--out", str(tmp_path)]
    subprocess.run(command, check=True, timeout=120, stdout=subprocess.DEVNULL, env=os.environ)

    rows = rows_of((tmp_path / "requests.arrow").read_bytes())
    engine = llama.timings()[before:]
    assert len(rows) == len(engine) == 24
    ttft_off, tpot_off = [], []
    for row, timing in zip(rows, engine, strict=True):
        assert row["outcome"] == "ok" and row["token_source"] == "usage"
        assert row["output_tokens"] == timing.output_tokens
        # The engine logs the prompt tokens that it computed; the ones from its cache are on top.
        assert row["input_tokens"] == timing.prompt_tokens + (row["cached_tokens"] or 0)
        ttft_ms = (row["t_first_ns"] - row["t_sent_ns"]) / 1e6
        tpot_ms = (row["t_last_ns"] - row["t_first_ns"]) / 1e6 / (row["output_tokens"] - 1)
        ttft_off.append(abs(ttft_ms - timing.prompt_ms) <= 0.05 * timing.prompt_ms + 1)
        engine_tpot_ms = timing.decode_ms / (timing.output_tokens - 1)
        tpot_off.append(abs(tpot_ms - engine_tpot_ms) <= 0.05 * engine_tpot_ms + 1)
    # The engine's clock leaves out HTTP and tokenising, and a busy machine may delay a request or two: most must agree.
    assert sum(ttft_off) >= 18 and sum(tpot_off) >= 18


@pytest.mark.django_db(transaction=True)
def test_a_whole_campaign_finishes_with_the_engines_own_counts(llama: Engine) -> None:
    before = len(llama.timings())
    target = make_target(base_url=llama.base_url, model=MODEL)
    mix = make_mix(classes=MIX)
    plan = {"stages": [1, 2, SLOTS], "stage_s": 4, "warmup_s": 1, "drain_s": 30, "refine": {"enabled": False}}
    campaign = create_campaign(make_user(), campaign_input(target, mix, **plan))
    run = launch_run(campaign, make_user(), LaunchInput())
    conduct(run.pk, "test")
    run.refresh_from_db()

    assert run.state == RunState.DONE, run.end_reason
    assert run.preflight and run.preflight["detected"]["engine"] == "llama.cpp" and not run.simulated
    assert run.result.text == run.end_reason
    ok = [
        row
        for log in RequestLog.objects.filter(stage__run=run)
        for row in rows_of(bytes(log.arrow))
        if row["outcome"] == "ok"
    ]
    assert ok and all(row["token_source"] == "usage" for row in ok)
    seen = sorted((row["input_tokens"] - (row["cached_tokens"] or 0), row["output_tokens"]) for row in ok)
    engine = [(timing.prompt_tokens, timing.output_tokens) for timing in llama.timings()[before:]]
    for pair in seen:
        # Also logged: preflight's requests, and the unmeasured ones that were cut at a stage's end.
        engine.remove(pair)
