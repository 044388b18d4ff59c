"""Every page, wide and narrow, light and dark, holds the promises of `Watched.check_looks`."""

from __future__ import annotations

import pytest

from campaigns.models import Role, RunState
from tests.campaigns.builders import LADDER, StageSpec, make_campaign, make_mix, make_run, make_target

REPORT = {
    "ok": False,
    "simulated": True,
    "at": "2026-01-01T00:00:00+00:00",
    "detected": {"engine": "vllm", "version": "1", "max_model_len": 4096},
    "checks": [
        {"name": "reachable", "ok": True, "required": True, "detail": "answered 200", "hint": ""},
        {"name": "usage", "ok": False, "required": False, "detail": "no usage", "hint": "Turn it on."},
        {"name": "model", "ok": False, "required": True, "detail": "not listed", "hint": "Choose another."},
    ],
}
LIVE = (*LADDER[:3], StageSpec(20, state="running"))


def test_login(anonymous):
    watched = anonymous()
    watched.open("/login/")
    watched.check_looks()


def test_home_when_it_is_empty(browser):
    watched = browser()
    watched.page.get_by_role("link", name="Add the first target").wait_for()
    watched.check_looks()


def test_home(browser):
    campaign = make_campaign(target=make_target(preflight=REPORT))
    make_run(campaign, ticks=False, simulated=True)
    make_run(campaign, state=RunState.RUNNING, stages=LIVE, ticks=False)
    watched = browser()
    watched.page.get_by_text("Running now").wait_for()
    watched.check_looks()


@pytest.mark.parametrize("path", ["/targets/", "/targets/new/", "/targets/{target}/", "/targets/{target}/edit/"])
def test_targets(browser, path):
    target = make_target(
        "a long name " * 9, preflight=REPORT, metrics=[{"kind": "dcgm", "url": "http://h:9400/metrics"}]
    )
    make_run(make_campaign(target=target), ticks=False)
    watched = browser()
    watched.open(path.format(target=target.pk))
    watched.check_looks()


@pytest.mark.parametrize("path", ["/mixes/", "/mixes/new/?preset=1", "/mixes/{mix}/edit/"])
def test_mixes(browser, path):
    watched = browser()
    watched.open(path.format(mix=make_mix().pk))
    watched.check_looks()


@pytest.mark.parametrize("path", ["/campaigns/", "/campaigns/new/", "/campaigns/{campaign}/"])
def test_campaigns(browser, path):
    campaign = make_campaign("x" * 120, target=make_target(preflight=REPORT))
    make_run(campaign, ticks=False, simulated=True, label="y" * 120)
    watched = browser()
    watched.open(path.format(campaign=campaign.pk))
    watched.check_looks()


def test_the_launch_form_of_a_viewer(browser):
    make_target()
    watched = browser(role=Role.VIEWER)
    page = watched.open("/campaigns/new/")
    launch = page.get_by_role("button", name="Launch", exact=True)
    assert launch.is_disabled()
    assert "Ask an admin" in page.locator(f"#{launch.get_attribute('aria-describedby')}").inner_text()
    watched.check_looks()


def test_a_live_run(browser):
    run = make_run(state=RunState.RUNNING, stages=LIVE, simulated=True)
    watched = browser()
    page = watched.open(f"/runs/{run.pk}/")
    page.locator(".strip__item--running progress").wait_for()
    watched.check_looks()


def test_results(browser):
    run = make_run(simulated=True)
    watched = browser()
    page = watched.open(f"/runs/{run.pk}/")
    page.locator("[data-time-table] tbody tr").first.wait_for(state="attached")
    watched.check_looks()


@pytest.mark.parametrize("state", [RunState.FAILED, RunState.INTERRUPTED])
def test_a_run_without_results(browser, state):
    run = make_run(state=state, stages=LADDER[:2], end_reason="for a reason", result=False)
    watched = browser()
    page = watched.open(f"/runs/{run.pk}/")
    page.locator("[data-time-table] tbody tr").first.wait_for(state="attached")
    watched.check_looks()


def test_the_page_that_is_not_there(browser):
    watched = browser()
    watched.open("/nowhere/")
    # The browser itself notes the 404 on its console.
    watched.misdeeds = [one for one in watched.misdeeds if "404" not in one]
    watched.check_looks()
