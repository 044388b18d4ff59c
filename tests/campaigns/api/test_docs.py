"""The page of the documentation works in a browser under the site's own security policy and asks no other host."""

from __future__ import annotations

from shutil import which

import pytest
from playwright.sync_api import Page, Request, sync_playwright
from pytest_django.live_server_helper import LiveServer

from campaigns.models import Scope
from tests.campaigns.api.program import BASE, Program
from tests.campaigns.services.builders import make_mix
from webapp.security import POLICY


@pytest.mark.django_db
def test_it_is_read_without_a_login_and_under_the_policy_of_every_page() -> None:
    response = Program(None).get("/docs")
    assert response.status_code == 200
    assert response["Content-Security-Policy"] == POLICY
    assert "unsafe" not in POLICY


@pytest.mark.browser
@pytest.mark.django_db(transaction=True)
def test_a_person_reads_it_and_tries_a_call(live_server: LiveServer, monkeypatch: pytest.MonkeyPatch) -> None:
    # Playwright's loop makes Django take this thread for an asynchronous one.
    monkeypatch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "1")
    make_mix(name="mix of the docs")
    token = Program(Scope.READ).headers["Authorization"].removeprefix("Bearer ")
    complaints: list[str] = []
    foreign: list[str] = []

    def watch(request: Request) -> None:
        if not request.url.startswith((live_server.url, "data:", "blob:")):
            foreign.append(request.url)

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        page = browser.new_page()
        page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", watch)
        page.goto(f"{live_server.url}{BASE}/docs")
        page.get_by_text("List mixes").wait_for()
        authorise(page, token)
        page.get_by_text("List mixes").click()
        page.get_by_role("button", name="Try it out").click()
        page.get_by_role("button", name="Execute").click()
        page.locator(".live-responses-table").get_by_text("mix of the docs").first.wait_for()
        browser.close()
    assert complaints == [] and foreign == []


def authorise(page: Page, token: str) -> None:
    page.get_by_role("button", name="Authorize").first.click()
    form = page.locator("form").filter(has_text="Token (http, Bearer)")
    form.get_by_role("textbox").fill(token)
    form.get_by_role("button", name="Apply credentials").click()
    page.get_by_role("button", name="Close").first.click()


def chromium() -> str | None:
    """The system's Chromium; None lets playwright look for its own."""
    return which("chromium") or which("chromium-browser") or which("google-chrome")
