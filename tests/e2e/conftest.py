"""A real server (uvicorn, as in the product) and a real Chromium.

Each page is held to the same promises: no error on the console, nothing asked of another host, no sideways scrolling,
and no finding of axe-core.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pytest
import uvicorn
from django.conf import settings
from django.core.management import call_command
from django.test import override_settings
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, sync_playwright

from campaigns.models import Role
from tests.campaigns.builders import PASSWORD, make_user

CHROMIUM = "/usr/bin/chromium"
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
AXE = Path(__file__).parent / "vendor" / "axe.min.js"
AXE_TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
Scheme = Literal["light", "dark"]
WIDE, NARROW = (1280, 860), (390, 844)
STARTS_WITHIN_S = 20.0

# Playwright's synchronous API keeps an event loop in this thread; the tests' own queries are not asynchronous.
os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(item.fspath).is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="session")
def _site(tmp_path_factory: pytest.TempPathFactory, django_db_setup: None) -> Iterator[str]:
    """The site with static files collected and named by their hashes, as in the product."""
    hashed = {"BACKEND": "whitenoise.storage.CompressedManifestStaticFilesStorage"}
    root = tmp_path_factory.mktemp("static")
    storages = {**settings.STORAGES, "staticfiles": hashed}
    with override_settings(STORAGES=storages, STATIC_ROOT=root, WHITENOISE_USE_FINDERS=False):
        call_command("collectstatic", interactive=False, verbosity=0)
        from django.core.asgi import get_asgi_application

        listener = socket.socket()
        listener.bind(("127.0.0.1", 0))
        config = uvicorn.Config(get_asgi_application(), log_level="warning", lifespan="off")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        limit = time.monotonic() + STARTS_WITHIN_S
        while not server.started and time.monotonic() < limit:
            time.sleep(0.02)
        assert server.started
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        server.should_exit = True
        thread.join()


@pytest.fixture(scope="module")
def _browser() -> Iterator[Browser]:
    """Of a module, not of the session: while it is open an event loop runs in this thread; other tests need none."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


@dataclass
class Watched:
    """A page whose misdeeds are written down."""

    page: Page
    site: str
    misdeeds: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        page = self.page
        page.on("console", self._hear)
        page.on("pageerror", lambda error: self.misdeeds.append(f"script: {error}"))
        page.on("request", lambda request: self._check(request.url))

    def _hear(self, said: ConsoleMessage) -> None:
        if said.type in ("error", "warning"):
            self.misdeeds.append(f"console: {said.text}")

    def _check(self, url: str) -> None:
        if not url.startswith((self.site, "data:", "blob:")):
            self.misdeeds.append(f"asked another host: {url}")

    def open(self, path: str) -> Page:
        self.page.goto(self.site + path)
        self.page.wait_for_load_state("networkidle") if "/runs/" not in path else self.page.wait_for_load_state("load")
        return self.page

    def check_looks(self) -> None:
        """The promises of every page, wide and narrow, light and dark."""
        for width, height in (WIDE, NARROW):
            self.page.set_viewport_size({"width": width, "height": height})
            for scheme in ("light", "dark"):
                self.page.emulate_media(color_scheme=scheme)
                self.check()

    def check(self) -> None:
        """The promises of every page, as it is now."""
        width = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        assert self.page.evaluate(width) <= 0, "the page scrolls sideways"
        # The policy forbids inline scripts, not those that the browser's own tools put in.
        if not self.page.evaluate("'axe' in window"):
            self.page.evaluate(AXE.read_text())
        found = self.page.evaluate("tags => axe.run(document, {runOnly: tags})", AXE_TAGS)
        problems = [
            f"{one['id']}: {one['help']}: {[node['html'][:160] for node in one['nodes'][:3]]}"
            for one in found["violations"]
        ]
        assert problems == []
        assert self.misdeeds == []


@pytest.fixture
def anonymous(_site: str, _browser: Browser, transactional_db: None) -> Iterator[Callable[..., Watched]]:
    """`anonymous()` opens a browser of its own, without a login."""
    contexts: list[BrowserContext] = []

    def open_browser(scheme: Scheme = "light") -> Watched:
        # Reduced motion: a colour that is still changing has no contrast yet.
        context = _browser.new_context(
            viewport={"width": WIDE[0], "height": WIDE[1]},
            color_scheme=scheme,
            timezone_id="Asia/Shanghai",
            reduced_motion="reduce",
        )
        context.set_default_timeout(15_000)
        contexts.append(context)
        return Watched(context.new_page(), _site)

    yield open_browser
    for context in contexts:
        context.close()


@pytest.fixture
def browser(anonymous: Callable[..., Watched]) -> Callable[..., Watched]:
    """`browser()` opens a browser in which Ann, who may launch, has logged in; `role` makes it someone else."""

    def open_browser(scheme: Scheme = "light", role: str = Role.LAUNCHER) -> Watched:
        name = {Role.LAUNCHER: "ann", Role.VIEWER: "vic", Role.ADMIN: "ada"}[Role(role)]
        make_user(name, role)
        watched = anonymous(scheme)
        page = watched.open("/login/")
        page.fill("[name=username]", name)
        page.fill("[name=password]", PASSWORD)
        page.click("main button[type=submit]")
        page.wait_for_url(f"{watched.site}/")
        return watched

    return open_browser
