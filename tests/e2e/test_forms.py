"""The forms in a real browser: three clicks to the first run, rows, previews, and one run for a double click."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from campaigns.models import Mix, Role, Run, Target
from tests.campaigns.builders import make_campaign, make_mix, make_run, make_target


def test_from_the_empty_home_page_three_clicks_launch_the_first_run(browser):
    watched = browser()
    page = watched.page
    page.get_by_role("link", name="Add the first target").click()
    page.get_by_label("Name", exact=False).first.fill("local")
    page.get_by_label("Base URL").fill("http://127.0.0.1:9/v1")
    page.get_by_label("Model", exact=False).first.fill("m")
    page.get_by_role("button", name="Save and plan a campaign").click()
    page.get_by_role("button", name="Launch", exact=True).click()
    page.wait_for_url(re.compile(r"/runs/\d+/"))
    run = Run.objects.get()
    assert run.target == Target.objects.get()
    assert run.frozen_plan.stages == [1, 5, 10, 20, 30, 50]
    expect(page.locator("[data-show=state]")).to_contain_text("Queued")
    watched.check()


def test_a_double_click_on_launch_makes_one_run_and_so_does_the_back_button(browser):
    make_target()
    watched = browser()
    page = watched.open("/campaigns/new/")
    page.get_by_role("button", name="Launch", exact=True).dblclick()
    page.wait_for_url(re.compile(r"/runs/\d+/"))
    page.go_back()
    page.get_by_role("button", name="Launch", exact=True).click()
    page.wait_for_url(re.compile(r"/runs/\d+/"))
    assert Run.objects.count() == 1


def test_the_estimate_and_the_limits_follow_what_is_typed(browser):
    make_target()
    watched = browser()
    page = watched.open("/campaigns/new/")
    estimate = page.locator("#estimate")
    expect(estimate).to_contain_text("7")
    page.get_by_label("Concurrency ladder").fill("1, 2")
    page.get_by_label("Concurrency ladder").blur()
    expect(estimate).to_contain_text("Stages")
    expect(estimate.locator("dd").first).to_have_text(re.compile(r"^3"))
    page.get_by_role("button", name="Add a limit").click()
    assert page.locator("[data-rows-list] [name=criterion-limit]").count() == 3
    page.locator("[data-rows-list] [name=criterion-limit]").last.fill("2000")
    page.get_by_role("button", name="Remove this limit").first.click()
    page.get_by_role("button", name="Launch", exact=True).click()
    page.wait_for_url(re.compile(r"/runs/\d+/"))
    limits = [(one.metric, one.stat, one.max_value) for one in Run.objects.get().frozen_plan.criteria]
    assert limits == [("tpot_ms", "p50", None), ("ttft_ms", "p99", 2000)]


def test_what_is_wrong_is_said_and_focus_goes_there(browser):
    make_target()
    watched = browser()
    page = watched.open("/campaigns/new/")
    page.get_by_label("Concurrency ladder").fill("5, 1")
    page.get_by_role("button", name="Launch", exact=True).click()
    expect(page.get_by_role("alert")).to_be_focused()
    expect(page.locator("#id_stages_error")).to_contain_text("Must rise")
    assert page.get_by_label("Concurrency ladder").input_value() == "5, 1"
    watched.misdeeds = [one for one in watched.misdeeds if "422" not in one]
    watched.check()


def test_a_mix_is_written_class_by_class_with_its_mean(browser):
    watched = browser()
    page = watched.open("/mixes/new/")
    page.get_by_label("Name", exact=False).first.fill("mine")
    row = page.locator("[data-row]").first
    row.get_by_label("Class name").fill("a")
    row.locator("[name=class-input_tokens]").fill("100")
    row.locator("[name=class-output_kind]").select_option("uniform")
    assert not row.locator("[name=class-output_tokens]").is_visible()
    row.locator("[name=class-output_min]").fill("10")
    row.locator("[name=class-output_max]").fill("30")
    expect(page.locator("#mix-preview tfoot")).to_contain_text("100")
    expect(page.locator("#mix-preview tfoot")).to_contain_text("20")
    page.get_by_role("button", name="Add a class").click()
    assert page.locator("[data-rows-list] [data-row]").count() == 2
    page.get_by_role("button", name="Remove this class").last.click()
    page.get_by_role("button", name="Save").click()
    page.wait_for_url(re.compile(r"/mixes/$"))
    output = {"dist": "uniform", "min": 10, "max": 30}
    assert Mix.objects.get().classes == [{"name": "a", "weight": 1, "input_tokens": 100, "output_tokens": output}]
    watched.check()


def test_preflight_answers_inline(browser):
    """Nothing listens on port 9, so the first check really fails."""
    target = make_target(base_url="http://127.0.0.1:9/v1")
    watched = browser()
    page = watched.open(f"/targets/{target.pk}/")
    page.get_by_role("button", name="Check now").click()
    expect(page.locator("#preflight .checks__item--fail").first).to_contain_text("reachable")
    assert page.url.endswith(f"/targets/{target.pk}/")
    watched.check()


def test_choosing_another_target_shows_its_own_preflight(browser):
    report = {"ok": True, "simulated": False, "at": "2026-01-01T00:00:00+00:00", "checks": [], "detected": {}}
    make_target("a", preflight=report)
    second = make_target("b")
    watched = browser()
    page = watched.open("/campaigns/new/")
    expect(page.locator("#preflight")).to_contain_text("Ready")
    page.get_by_label("Target").select_option(str(second.pk))
    expect(page.locator("#preflight")).to_contain_text("Not checked yet")


def test_archiving_asks_first(browser):
    target = make_target()
    watched = browser(role=Role.ADMIN)
    page = watched.open(f"/targets/{target.pk}/")
    page.once("dialog", lambda dialog: dialog.dismiss())
    page.get_by_role("button", name="Archive").click()
    target.refresh_from_db()
    assert target.archived_at is None
    page.once("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Archive").click()
    page.wait_for_url(re.compile(r"/targets/$"))
    target.refresh_from_db()
    assert target.archived_at is not None


def test_everything_is_reached_by_keyboard(browser):
    make_run(make_campaign(mix=make_mix()), ticks=False)
    watched = browser()
    page = watched.page
    page.keyboard.press("Tab")
    expect(page.locator(".skip-link")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#main")).to_be_focused()
    page.locator("details.menu summary").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Log out")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="Log out")).to_be_hidden()


def test_times_are_in_the_readers_zone_with_utc_in_the_title(browser):
    run = make_run(ticks=False)
    Run.objects.filter(pk=run.pk).update(created_at="2026-03-01T20:30:00+00:00")
    watched = browser()
    time = watched.open("/campaigns/").locator("tbody time").first
    assert "Mar 2" in time.inner_text() and "4:30" in time.inner_text()  # Shanghai is 8 hours ahead
    assert time.get_attribute("title") == "2026-03-01 20:30:00 UTC"


@pytest.mark.parametrize(("system", "clicks", "dark"), [("light", 0, False), ("light", 2, True), ("dark", 1, False)])
def test_the_theme_is_the_systems_or_the_persons_and_stays(browser, system, clicks, dark):
    watched = browser(scheme=system)
    page = watched.page
    for _ in range(clicks):
        page.get_by_role("button", name="Colour theme").click()
    page.reload()
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (ground == "rgb(14, 18, 22)") == dark
