"""The live page grows, survives reloads and turns into the results; the results' toggles, files and address."""

from __future__ import annotations

import csv
import io
import re
import time
from collections.abc import Callable
from typing import Any

from django.utils import timezone
from playwright.sync_api import Page, expect

from campaigns.models import Run, RunEvent, RunState, StageState, StageTick
from tests.campaigns.builders import LADDER, StageSpec, make_run

LIVE = (*LADDER[:3], StageSpec(20, state="running"))


def wait_until(holds: Callable[[], bool]) -> None:
    """Playwright's own wait_for_function needs eval, which the site's policy forbids."""
    limit = time.monotonic() + 15
    while not holds():
        assert time.monotonic() < limit
        time.sleep(0.05)


def points(page: Page, series: str) -> int:
    """How many measured points a chart over time holds."""
    return page.evaluate(
        "s => Chart.getChart(document.querySelector(`canvas[data-series=${s}]`)).data.datasets[0].data"
        ".filter(p => p.y !== null).length",
        series,
    )


def wait_for_points(page: Page, count: int) -> None:
    wait_until(lambda: points(page, "in_flight") == count)


def tick(run: Run, second: float, **progress: object) -> None:
    line = {
        "phase": "measure",
        "in_flight": 20,
        "output_tokens_per_s": 1234.0,
        "ttft_ms_p50": 150.0,
        "by_outcome": {"timeout": 3},
    }
    StageTick.objects.create(stage=run.stages.latest("index"), t_s=second, progress={**line, **progress})


def test_the_live_page_grows_and_survives_a_reload(browser):
    run = make_run(state=RunState.RUNNING, stages=LIVE)
    recorded = StageTick.objects.filter(stage__run=run).count()
    watched = browser()
    page = watched.open(f"/runs/{run.pk}/")
    wait_for_points(page, recorded)
    for second in (20, 21, 22):
        tick(run, second)
    RunEvent.objects.create(run=run, kind="note", message="something <b>new</b>")
    expect(page.locator("[data-show=tokens]")).to_have_text("1,234")
    expect(page.locator("[data-show=failed]")).to_have_text("3")
    expect(page.locator("[data-events]")).to_contain_text("something <b>new</b>")
    assert points(page, "in_flight") == recorded + 3
    page.reload()
    wait_for_points(page, recorded + 3)
    assert points(page, "ttft_ms_p50") < recorded + 3  # seconds without an answer are gaps
    watched.check()


def test_a_second_without_a_line_is_a_gap(browser):
    run = make_run(state=RunState.RUNNING, stages=[StageSpec(1, "baseline", state="running")])
    tick(run, 60.0)
    page = browser().open(f"/runs/{run.pk}/")
    data = "Chart.getChart(document.querySelector('canvas[data-series=in_flight]')).data.datasets[0].data"
    wait_until(lambda: page.evaluate(f"{data}.at(-1)?.y") == 20)
    assert page.evaluate(f"{data}.at(-2).y") is None


def test_two_tabs_follow_one_run_and_turn_into_the_results(browser):
    run = make_run(state=RunState.RUNNING, stages=LIVE)
    first, second = browser(), browser()
    pages = [watched.open(f"/runs/{run.pk}/") for watched in (first, second)]
    for page in pages:
        page.locator(".strip__item--running").wait_for()
    make_run(run.campaign, ticks=False)  # another run of the campaign changes nothing here
    run.stages.filter(state=StageState.RUNNING).update(state=StageState.PARTIAL, ended_at=timezone.now())
    Run.objects.filter(pk=run.pk).update(
        state=RunState.ABORTED, ended_at=timezone.now(), end_reason="too many failures", claim=None
    )
    for page in pages:
        expect(page.get_by_text("too many failures")).to_be_visible()
    first.check()


def test_cancelling_asks_first_and_is_shown(browser):
    run = make_run(state=RunState.RUNNING, stages=LIVE)
    watched = browser()
    page = watched.open(f"/runs/{run.pk}/")
    page.once("dialog", lambda dialog: dialog.dismiss())
    page.get_by_role("button", name="Cancel run").click()
    run.refresh_from_db()
    assert run.cancel_requested_at is None
    page.once("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Cancel run").click()
    expect(page.get_by_role("button", name="Cancel run")).to_be_disabled()
    expect(page.locator("[data-show=state]")).to_contain_text("Stopping")
    watched.check()


def test_the_page_says_when_the_site_is_away_and_comes_back(browser):
    run = make_run(state=RunState.RUNNING, stages=LIVE)
    watched = browser()
    page = watched.open(f"/runs/{run.pk}/")
    page.locator(".strip__item--running").wait_for()
    page.route("**/live/*", lambda route: route.abort())
    expect(page.locator("[data-show=lost]")).to_be_visible()
    page.unroute("**/live/*")
    expect(page.locator("[data-show=lost]")).to_be_hidden()


def chart(page: Page, name: str, expression: str) -> Any:
    find = "const chart = Chart.getChart(document.querySelector(`canvas[data-chart=${name}]`))"
    return page.evaluate(f"name => {{ {find}; return {expression}; }}", name)


def test_the_chart_marks_the_load_line_the_limit_and_the_hollow_stages(browser):
    run = make_run(ticks=False)
    page = browser().open(f"/runs/{run.pk}/")
    marks = chart(
        page,
        "ttft_ms",
        "Object.fromEntries(Object.entries(chart.options.plugins.annotation.annotations)"
        ".map(([name, mark]) => [name, mark.xMin ?? mark.yMin]))",
    )
    assert marks["load-line"] == 22 and marks["load-line-range"] == 22 and marks["limit-0"] == 180
    hollow = chart(page, "ttft_ms", "chart.data.datasets[1].data.map(p => p.x)")
    assert hollow == [1, 50]  # the closing baseline and the invalid stage
    filled = chart(page, "ttft_ms", "chart.data.datasets[0].data.map(p => p.x)")
    assert filled == [1, 5, 10, 20, 22, 25, 30]


def test_the_toggles_are_in_the_address(browser):
    run = make_run(ticks=False)
    watched = browser()
    page = watched.open(f"/runs/{run.pk}/")
    page.locator("[data-percentile=p90]").uncheck(force=True)
    page.locator("[data-axis=y][value=logarithmic]").check(force=True)
    page.locator("[data-axis=x][value=logarithmic]").check(force=True)
    assert page.url.endswith("?p=p50,p99&y=logarithmic&x=logarithmic")
    again = watched.open(page.url.removeprefix(watched.site))
    assert not again.locator("[data-percentile=p90]").is_checked()
    assert chart(again, "tpot_ms", "[chart.scales.x.type, chart.scales.y.type]") == ["logarithmic", "logarithmic"]
    assert chart(again, "ttft_ms", "chart.data.datasets.filter(d => d.label === 'p90').length") == 0
    watched.check()


def test_png_and_csv_hold_what_is_on_the_screen(browser):
    run = make_run(label="=SUM(A1)", simulated=True)
    document = run.result.document
    document["stages"][1]["invalid_reasons"] = ["=HYPERLINK(1)"]
    run.result.document = document
    run.result.save()
    page = browser().open(f"/runs/{run.pk}/")
    figure = page.locator(".chart", has=page.locator("canvas[data-chart=ttft_ms]"))
    with page.expect_download() as png:
        figure.get_by_role("button", name="PNG").click()
    with png.value.path().open("rb") as file:
        assert file.read(8) == b"\x89PNG\r\n\x1a\n"
    assert re.fullmatch(r"[\w-]+\.png", png.value.suggested_filename)
    rows = saved_csv(page, figure.get_by_role("button", name="CSV"))
    assert rows[0][:6] == ["concurrency", "stage", "valid", "within", "requests", "ttft_ms_p50"]
    by_place = {(int(row[0]), row[1]): row for row in rows[1:]}
    assert float(by_place[20, "ladder"][5]) == document["stages"][3]["ttft_ms"]["p50"]
    table = saved_csv(page, page.locator("section", has=page.locator("#stage-table")).get_by_role("button", name="CSV"))
    assert len(table) == 1 + len(document["stages"])
    assert table[2][-1] == "'=HYPERLINK(1)"
    assert float(table[4][6]) == document["stages"][3]["ttft_ms"]["p50"]
    over_time = page.locator(".chart", has=page.locator("canvas[data-series=in_flight]"))
    page.locator("[data-time-table] tbody tr").first.wait_for(state="attached")
    recorded = StageTick.objects.filter(stage__run=run).count()
    assert len(saved_csv(page, over_time.get_by_role("button", name="CSV"))) == 1 + recorded


def saved_csv(page: Page, button) -> list[list[str]]:
    with page.expect_download() as download:
        button.click()
    return list(csv.reader(io.StringIO(download.value.path().read_text(encoding="utf-8-sig"))))


def test_the_theme_redraws_the_charts(browser):
    run = make_run(ticks=False)
    watched = browser()
    page = watched.open(f"/runs/{run.pk}/")
    expression = "chart.data.datasets[0].borderColor"
    light = chart(page, "ttft_ms", expression)
    for _ in range(2):
        page.get_by_role("button", name="Colour theme").click()
    assert chart(page, "ttft_ms", expression) != light
    watched.check()
