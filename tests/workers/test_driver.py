"""A driver leaves nothing behind, and what a killed one left is removed by the next worker, and nothing else."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from tests.workers.conducting import environment, until
from workers import driver, tasks
from workers.driver import Driver

# Nothing listens there: the generator starts and fails its requests, which is enough to have a folder.
MIX = [{"name": "a", "weight": 1, "input_tokens": 4, "output_tokens": 2}]


def plan() -> dict[str, Any]:
    return {
        "base_url": "http://127.0.0.1:9/v1",
        "model": "m",
        "headers": {},
        "load": {"kind": "closed", "concurrency": 1},
        "warmup_s": 0,
        "measure_s": 60,
        "mix": {"classes": MIX},
    }


@pytest.fixture(autouse=True)
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where stages are kept: a place of this test's own."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(driver, "NEW_FOLDER_S", -1.0)
    return tmp_path


def test_a_driver_takes_its_folder_along(folders: Path) -> None:
    with Driver(plan()):
        assert len(list(folders.iterdir())) == 1
    assert list(folders.iterdir()) == []


@pytest.mark.process
@pytest.mark.django_db
def test_the_folder_of_a_killed_worker_is_removed_and_that_of_a_live_one_stays(folders: Path) -> None:
    hold = "from workers.driver import Driver; import json, sys, time\n"
    hold += "driver = Driver(json.loads(sys.argv[1])); print(driver.pid, flush=True); time.sleep(600)"
    code = f"import django; django.setup()\n{hold}"
    killed = subprocess.Popen(
        [sys.executable, "-c", code, json.dumps(plan())],
        env=environment() | {"TMPDIR": str(folders)},
        cwd=settings.BASE_DIR,
        stdout=subprocess.PIPE,
    )
    assert killed.stdout is not None and killed.stdout.readline().strip().isdigit()
    (left,) = folders.iterdir()
    other = folders / "brimline-stage-of-another-kind"
    other.mkdir()
    with Driver(plan()):
        (live,) = set(folders.iterdir()) - {left, other}
        tasks.tidy()
        assert left.exists() and live.exists()
        os.kill(killed.pid, signal.SIGKILL)
        killed.wait()
        killed.stdout.close()
        until(lambda: (tasks.tidy(), not left.exists())[1], "the folder of the killed worker to go")
        assert live.exists() and other.exists()


def test_a_new_folder_is_left_alone(folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "NEW_FOLDER_S", 60.0)
    made = folders / f"{driver.FOLDER}x"
    made.mkdir()
    (made / driver.LOCK).touch()
    tasks.tidy()
    assert made.exists()
