from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time

import httpx
import pytest

from tests.simulator.running import COMMAND, simulator


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, timeout=120)


def test_the_scenarios_are_listed() -> None:
    listed = run("--list")
    assert listed.returncode == 0
    assert [line.partition(":")[0] for line in listed.stdout.splitlines()] == ["healthy"]


def test_the_truth_is_printed_as_json() -> None:
    truth = json.loads(run("--truth", "--mix", "small", "--ladder", "1,4,8,16,32").stdout)
    assert (truth["scenario"], truth["simulated"], truth["cause"]) == ("healthy", True, None)
    assert truth["limit"]["relation"] == "="
    assert truth["limit"]["limited_by"] == "tpot_ms"
    assert truth["limit"]["max_concurrency"] == truth["limit"]["by_metric"]["tpot_ms"]["max_concurrency"]
    assert {1, 4, 8, 16, 32} <= {stage["concurrency"] for stage in truth["stages"]}
    assert [one["name"] for one in truth["mix"]["classes"]] == ["short", "medium", "long"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_cleanly_in_the_middle_of_an_answer(number: signal.Signals) -> None:
    with simulator() as running:
        body = {"prompt": "hello", "max_tokens": 20_000, "ignore_eos": True, "stream": True}
        with httpx.stream("POST", f"{running.url}/v1/completions", json=body, timeout=30) as answer:
            stream = answer.iter_raw()
            next(stream)
            running.process.send_signal(number)
            assert running.process.wait(timeout=30) == 0


def test_it_ends_with_its_parent_when_asked_to() -> None:
    start = (
        f"import subprocess; print(subprocess.Popen({[*COMMAND, '--port', '0', '--stop-with-parent']}).pid, flush=True)"
    )
    parent = subprocess.Popen([sys.executable, "-c", start + "; input()"], stdin=-1, stdout=-1, text=True)
    assert parent.stdout is not None and parent.stdin is not None
    child = int(parent.stdout.readline())
    assert parent.stdout.readline().startswith("listening on")
    parent.kill()
    parent.wait(timeout=30)
    try:
        deadline = time.monotonic() + 30
        while is_alive(child):
            assert time.monotonic() < deadline
            time.sleep(0.05)
    finally:
        if is_alive(child):
            os.kill(child, signal.SIGKILL)
    parent.stdin.close()
    parent.stdout.close()


def is_alive(pid: int) -> bool:
    """A process that has ended and that nobody has waited for counts as ended."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True).stdout
    return bool(state.strip()) and not state.startswith("Z")


def test_a_port_in_use_is_said() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = run("--port", str(port))
    assert ended.returncode == 1
    assert f"127.0.0.1:{port}" in ended.stderr and "--port 0" in ended.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["--scenario", "nothing"],
        ["--port", "70000"],
        ["--time-scale", "0"],
        ["--noise", "nan"],
        ["--truth", "--ladder", "1,x"],
        ["--truth", "--mix", "{"],
    ],
)
def test_wrong_arguments_are_named(arguments: list[str]) -> None:
    ended = run(*arguments)
    assert ended.returncode == 2
    assert arguments[-2] in ended.stderr


def test_the_key_may_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BRIMLINE_SIM_API_KEY", "right")
    with simulator() as running:
        assert httpx.get(f"{running.url}/v1/models").status_code == 401
        assert httpx.get(f"{running.url}/v1/models", headers={"Authorization": "Bearer right"}).status_code == 200
