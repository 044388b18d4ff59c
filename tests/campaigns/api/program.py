"""A program that speaks to the API, and the things it speaks about; built by the services, as people build them."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from campaigns.models import ApiToken, Campaign, RequestLog, Run, RunState, Scope, Stage, StageKind, StageState
from campaigns.services.plans import create_campaign
from tests.campaigns.services import builders as services
from tests.campaigns.services.builders import campaign_input, make_mix, make_target, make_user

BASE = "/api/v1"


class Program:
    """Sends JSON with a token of `scope` (None: without one) below `BASE`."""

    def __init__(self, scope: Scope | None, user: User | None = None) -> None:
        # A 500 is an answer here, not an exception of the test.
        self.client = Client(raise_request_exception=False)
        self.headers = {}
        if scope is not None:
            owner = user or User.objects.get_or_create(username=f"{scope}-bot", is_superuser=True)[0]
            self.headers["Authorization"] = f"Bearer {ApiToken.objects.issue(owner, scope)[1]}"

    def send(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        sent = {**self.headers, **{name.replace("_", "-"): value for name, value in headers.items()}}
        data = b"" if body is None else json.dumps(body).encode()
        address = path if path.startswith(BASE) else BASE + path
        return self.client.generic(method.upper(), address, data, "application/json", headers=sent)

    def get(self, path: str, **headers: str) -> Any:
        return self.send("get", path, **headers)

    def post(self, path: str, body: Any = None, **headers: str) -> Any:
        return self.send("post", path, body, **headers)

    def patch(self, path: str, body: Any) -> Any:
        return self.send("patch", path, body)

    def delete(self, path: str) -> Any:
        return self.send("delete", path)


def error_of(response: Any, status: int) -> dict[str, Any]:
    """The error of an answer that must have `status` and the one form of errors."""
    assert response.status_code == status, response.content
    assert response["Content-Type"] == "application/json"
    body: dict[str, Any] = response.json()
    assert set(body) == {"error"} and set(body["error"]) == {"code", "message", "fields"}
    assert body["error"]["message"]
    error: dict[str, Any] = body["error"]
    return error


def make_campaign(name: str = "c") -> Campaign:
    """A campaign with a target and a mix of its own."""
    target, mix = make_target(name=f"target of {name}"), make_mix(name=f"mix of {name}")
    return create_campaign(make_user(), campaign_input(target, mix, name=name))


def make_run(campaign: Campaign | None = None, label: str = "") -> Run:
    return services.make_run(campaign or make_campaign(), label=label)


def start(run: Run) -> None:
    assert Run.objects.claim(run.pk, "worker")


def end(run: Run, state: RunState = RunState.DONE) -> None:
    """Bring a queued run to `state` by the transitions alone."""
    claim = Run.objects.claim(run.pk, "worker")
    assert claim
    if state == RunState.DONE:
        assert Run.objects.advance(run.pk, claim, RunState.ANALYSING)
    assert Run.objects.end(run.pk, state, f"ended as {state}", claim)


def make_stage(run: Run, index: int, users: int, requests: int, kind: StageKind = StageKind.LADDER) -> Stage:
    """A whole stage with a request log of `requests` rows, in which each of the users always has one in flight."""
    each_ns = 100_000_000
    sent = [place // users * each_ns for place in range(requests)]
    first = [sent_ns + 20_000_000 + place % 7 * 100_000 for place, sent_ns in enumerate(sent)]
    window_s = max(1, requests // users) * each_ns / 1e9
    table = pa.table(
        {
            "request_id": [f"{index}-{place}" for place in range(requests)],
            "class": ["a"] * requests,  # as in `make_mix`
            "outcome": pa.array(["ok"] * requests).dictionary_encode(),
            "error": ["=1+1"] * requests,
            "measured": [True] * requests,
            "t_sent_ns": pa.array(sent, pa.int64()),
            "t_first_ns": pa.array(first, pa.int64()),
            "t_last_ns": pa.array([sent_ns + each_ns for sent_ns in sent], pa.int64()),
            "t_end_ns": pa.array([sent_ns + each_ns for sent_ns in sent], pa.int64()),
            "input_tokens": pa.array([10] * requests, pa.int32()),
            "output_tokens": pa.array([20] * requests, pa.int32()),
            "cached_tokens": pa.array([None] * requests, pa.int32()),
            "token_source": ["usage"] * requests,
        }
    )
    client = {"cpu_share": 0.1, "lateness_ms": {"p50": 0.1, "p99": 0.2, "max": 0.3}, "processes": 1}
    stage = Stage.objects.create(
        run=run,
        index=index,
        kind=kind,
        concurrency=users,
        warmup_s=0,
        measure_s=window_s,
        state=StageState.DONE,
        summary={
            "window_s": window_s,
            "in_flight_mean": users,
            "requests_per_s": requests / window_s,
            "client": client,
        },
        ended_at=timezone.now(),
    )
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(table)
    RequestLog.objects.create(stage=stage, rows=requests, arrow=sink.getvalue().to_pybytes())
    return stage
