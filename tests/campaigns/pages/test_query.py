"""Whatever number stands in an address, a page or an error page of our own answers."""

from __future__ import annotations

import pytest
from django.urls import reverse

from campaigns.models import RunState
from campaigns.pages.query import whole_number
from tests.campaigns.builders import make_run

NUMBERS = ["9" * 5000, "9" * 19, "-1", "1.5", "²", "٣", "1e9", "", "x", "0x1", "\0", "%FF"]


@pytest.mark.parametrize("text", NUMBERS)
def test_it_is_a_number_or_the_default(text):
    assert whole_number(text, default=7) == (3 if text == "٣" else 7)


@pytest.mark.parametrize("number", NUMBERS)
def test_no_number_in_a_query_breaks_a_page(page, number):
    run = make_run(state=RunState.RUNNING, ticks=False)
    for address, names in (
        (reverse("run-live", args=[run.pk]), ("tick", "event")),
        (reverse("mix-new"), ("preset",)),
        (reverse("launch-preflight"), ("target",)),
        (reverse("campaign-new"), ("target", "mix")),
        (reverse("campaign-list"), ("page",)),
    ):
        for name in names:
            assert page.get(address, {name: number}).status_code in (200, 404), (address, name)
    assert page.post(reverse("launch-preflight"), {"target": number}).status_code in (200, 404)


@pytest.mark.parametrize(
    "address", ["/runs/{}/", "/runs/{}/live/", "/targets/{}/", "/mixes/{}/edit/", "/campaigns/{}/"]
)
@pytest.mark.parametrize("number", ["9" * 5000, "9" * 19, "9" * 40])
def test_no_number_in_a_path_breaks_a_page(page, address, number):
    assert page.get(address.format(number)).status_code == 404
    assert page.get("/api/v1" + address.format(number).rstrip("/")).status_code in (404, 422)
