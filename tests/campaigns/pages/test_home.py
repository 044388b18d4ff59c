"""Where things stand: targets with their load line, running campaigns, and the way to the first run."""

from __future__ import annotations

from django.urls import reverse

from campaigns.models import RunState
from tests.campaigns.builders import make_campaign, make_run, make_target


def test_an_empty_site_leads_to_the_first_run(page):
    body = page.get(reverse("home")).content.decode()
    assert "No target yet" in body and reverse("target-new") in body


def test_a_target_shows_its_newest_load_line_and_its_last_run(page):
    campaign = make_campaign()
    old = make_run(campaign, ticks=False)
    old.result.load_line = 7
    old.result.save()
    make_run(campaign, ticks=False)
    last = make_run(campaign, state=RunState.FAILED, end_reason="gone", stages=(), result=False)
    body = page.get(reverse("home")).content.decode()
    assert '<span class="load-line__value">22</span>' in body
    assert f"Run {last.pk}" in body and "Failed" in body


def test_a_target_without_runs_says_so(page):
    make_target()
    body = page.get(reverse("home")).content.decode()
    assert "Not measured yet" in body and "Never run" in body


def test_a_load_line_of_a_simulated_run_says_simulated(page):
    make_run(simulated=True, ticks=False)
    assert "simulated" in page.get(reverse("home")).content.decode()


def test_htmx_gets_the_running_campaigns_alone(page):
    run = make_run(make_campaign("Nightly"), state=RunState.RUNNING, ticks=False)
    response = page.get(reverse("home"), headers={"HX-Request": "true"})
    body = response.content.decode()
    assert "<html" not in body
    assert "Nightly" in body and reverse("run-detail", args=[run.pk]) in body


def test_the_number_of_queries_does_not_grow_with_the_targets(page, django_assert_max_num_queries):
    for name in ("a", "b", "c", "d"):
        make_run(make_campaign(name, target=make_target(name)), ticks=False)
    with django_assert_max_num_queries(9):
        page.get(reverse("home"))
