"""The main job, as a person does it: from `manage.py up` and the login to a load line, on a real product."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.e2e.conftest import NARROW, WIDE, Watched
from tests.up.product import Product
from webapp.environment import ROOT

pytestmark = [pytest.mark.process, pytest.mark.xdist_group("up")]

PASSWORD = "correct horse battery"
MAKE_USER = f"from django.contrib.auth.models import User; User.objects.create_user('ann', password={PASSWORD!r})"
RUN_LIMIT_MS = 120_000


@pytest.fixture
def product(tmp_path: Path) -> Iterator[Product]:
    made = Product(tmp_path / "data", tmp_path / "output")
    made.start().wait_for("Ready")
    user = made.manage("shell", "-c", MAKE_USER)
    assert user.returncode == 0, user.stderr
    yield made
    assert made.end() == 0


@pytest.fixture
def engine() -> Iterator[str]:
    """A simulated engine's base URL."""
    command = [sys.executable, "-m", "workers.simulator", "--scenario", "healthy", "--port", "0", "--time-scale", "4"]
    with subprocess.Popen([*command, "--stop-with-parent"], cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().split()[-1] + "/v1"
        process.terminate()


def test_a_person_logs_in_describes_a_server_and_reads_its_load_line(
    product: Product, engine: str, _browser: Browser
) -> None:
    context = _browser.new_context(viewport={"width": WIDE[0], "height": WIDE[1]}, reduced_motion="reduce")
    watched = Watched(context.new_page(), product.url)
    page = watched.page

    watched.open("/")
    page.fill("[name=username]", "ann")
    page.fill("[name=password]", PASSWORD)
    page.click("main button[type=submit]")

    page.get_by_role("link", name="Add the first target").click()
    page.get_by_label("Name", exact=False).first.fill("staging <b>8B</b>")
    page.get_by_label("Base URL").fill(engine)
    page.get_by_label("Model", exact=False).first.fill("sim-8b")
    page.get_by_role("button", name="Save and plan a campaign").click()

    page.get_by_role("button", name="Check the target").click()
    expect(page.locator("main")).to_contain_text("simulated", timeout=30_000)
    page.get_by_label("Concurrency ladder").fill("1, 4, 40")
    page.get_by_label("Stage", exact=True).fill("3")
    page.get_by_label("Warm-up", exact=True).fill("1")
    page.get_by_label("Refinement budget").fill("8")
    page.get_by_role("button", name="Launch", exact=True).click()
    page.wait_for_url(re.compile(r"/runs/\d+/"))

    expect(page.locator("[data-show=state]")).to_contain_text(re.compile("running", re.I), timeout=30_000)
    page.reload()
    for width, height in (NARROW, WIDE):
        page.set_viewport_size({"width": width, "height": height})
        watched.check()
    expect(page.get_by_role("link", name="Run again").or_(page.get_by_role("button", name="Run again"))).to_be_visible(
        timeout=RUN_LIMIT_MS
    )
    expect(page.locator("main")).to_contain_text("Load line")
    expect(page.locator("main")).to_contain_text("staging <b>8B</b>")
    expect(page.locator("main")).to_contain_text(re.compile(r"simulated engine", re.I))
    watched.check_looks()

    page.goto(product.url)
    expect(page.get_by_role("link", name=re.compile("Run 1"))).to_be_visible()
    assert watched.misdeeds == []
    context.close()
