"""Whatever people type and servers send is shown literally: in lists, titles, forms and the data of charts."""

from __future__ import annotations

import json
from html import escape

import pytest
from django.urls import reverse

from campaigns.models import RunState
from tests.campaigns.builders import make_campaign, make_mix, make_run, make_target

HOSTILE = [
    "<uuid>",
    "<img src=x onerror=alert(1)>",
    "{{7*7}}",
    "</script><script>alert(1)</script>",
    "<svg onload=alert(1)>",
    'it\'s "quoted" & more',
    "[x](javascript:alert(1))",
    "نص عربي \u2067rtl\u2069 名 🚀",
    "x" * 120,
]


@pytest.fixture(params=HOSTILE)
def hostile(request):
    return request.param


@pytest.fixture
def run(db, hostile):
    check = {"name": "model", "ok": False, "required": True, "detail": hostile, "hint": hostile}
    report = {
        "ok": False,
        "simulated": False,
        "at": None,
        "checks": [check],
        "detected": {"engine": hostile, "version": hostile},
    }
    target = make_target(hostile, model=hostile, gpu_model=hostile, tags=[hostile], preflight=report)
    mix = make_mix(hostile, classes=[{"name": hostile, "weight": 1, "input_tokens": 5, "output_tokens": 5}])
    campaign = make_campaign(hostile, target=target, mix=mix)
    limit = {"value": 22, "low": None, "high": None, "relation": "=", "passed": 22, "failed": 25, "text": hostile}
    run = make_run(
        campaign,
        label=hostile,
        notes=hostile,
        deployment={hostile: hostile, "list": [hostile]},
        result={"doubts": [hostile], "notes": [hostile], "max_concurrency": {**limit, "limited_by": None}},
        ticks=False,
    )
    run.events.create(kind="x", message=hostile)
    return run


def addresses(run):
    return [
        reverse("home"),
        reverse("target-list"),
        reverse("target-detail", args=[run.target_id]),
        reverse("target-edit", args=[run.target_id]),
        reverse("mix-list"),
        reverse("mix-edit", args=[run.campaign.mix_id]),
        reverse("campaign-list"),
        reverse("campaign-new"),
        reverse("campaign-detail", args=[run.campaign_id]),
        reverse("run-detail", args=[run.pk]),
    ]


def test_it_is_shown_and_never_markup(page, run, hostile):
    for address in addresses(run):
        response = page.get(address)
        body = response.content.decode()
        assert response.status_code == 200
        assert escape(hostile) in body or escape(hostile[:100]) in body, address
        for markup in ("<uuid>", "<img src=x", "<script>alert", "<svg onload", 'href="javascript:'):
            assert markup not in body, address
        assert "49" not in hostile or "{{7*7}}" in body


def test_the_data_of_charts_cannot_end_its_element(page, hostile, db):
    run = make_run(ticks=False, result={"scaling": None})
    document = run.result.document
    document["stages"][1]["kind"] = hostile
    document["per_criterion"][0]["stat"] = hostile
    run.result.document = document
    run.result.save()
    body = page.get(reverse("run-detail", args=[run.pk])).content.decode()
    data = json.loads(body.partition('<script id="chart-data" type="application/json">')[2].partition("</script>")[0])
    kinds = [one["kind"] for one in data["latency"]["ttft_ms"]["points"]]
    assert hostile in kinds


def test_the_feed_is_json_and_says_so(page, hostile, db):
    run = make_run(state=RunState.RUNNING, ticks=False)
    run.events.create(kind="x", message=hostile)
    response = page.get(reverse("run-live", args=[run.pk]))
    assert response["Content-Type"] == "application/json" and response["X-Content-Type-Options"] == "nosniff"
    assert response.json()["events"][-1]["message"] == hostile


def test_an_error_repeats_what_was_typed_literally(page, db):
    sent = {"name": "<b>n</b>", "base_url": '"><script>alert(1)</script>', "model": "m", "protocol": "openai-chat"}
    body = page.post(reverse("target-new"), sent).content.decode()
    assert "<script>alert" not in body and "&lt;script&gt;alert" in body and "&lt;b&gt;n&lt;/b&gt;" in body
