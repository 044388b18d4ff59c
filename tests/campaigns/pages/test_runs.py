"""A run's page in each of its states, its actions, and what the live page polls."""

from __future__ import annotations

import json

import pytest
from django.urls import reverse
from django.utils import timezone

from campaigns.models import Run, RunResult, RunState, StageTick
from campaigns.pages.live import SERIES
from campaigns.pages.results import results_page
from campaigns.templatetags.brimline import stage_mark
from tests.campaigns.builders import LADDER, StageSpec, make_campaign, make_mix, make_run, make_target
from workers import heartbeat

LIVE = (*LADDER[:3], StageSpec(20, state="running"))
NONE = {"value": None, "low": None, "high": None, "relation": None, "passed": None, "failed": None}


def body_of(page, run):
    return page.get(reverse("run-detail", args=[run.pk])).content.decode()


def test_a_running_run_shows_where_it_is(page):
    run = make_run(state=RunState.RUNNING, stages=LIVE)
    body = body_of(page, run)
    assert "Cancel run" in body and 'data-show="stage">4 / 7<' in body and 'data-show="concurrency">20<' in body
    assert body.count("strip__item--done") == 3 and body.count("strip__item--next") == 3


def test_a_queued_run_shows_its_plan(page):
    body = body_of(page, make_run(state=RunState.QUEUED))
    assert "Queued" in body and body.count("strip__item--next") == 7


def test_a_run_that_no_worker_will_take_says_so_wherever_it_is_shown(page):
    run = make_run(make_campaign(target=make_target(queue="host.gpu")), state=RunState.QUEUED)
    live = page.get(reverse("run-live", args=[run.pk])).json()["progress"]["waiting"]
    api = page.get(f"/api/v1/runs/{run.pk}").json()["progress"]["waiting"]
    shown = (body_of(page, run), page.get(reverse("home")).content.decode(), live, api)
    assert all("o worker serves the queue host.gpu" in text and "-Q host.gpu" in text for text in shown), shown
    heartbeat.write("w@host", ["host.gpu"], timezone.now())
    assert "o worker serves" not in body_of(page, run)


def test_a_finished_run_gives_the_answer_first(page):
    body = body_of(page, make_run(ticks=False))
    for words in ("22 (22–25): passed 22, failed 25 on TTFT p50", "95% interval 22–25", "TTFT p50", "low confidence"):
        assert words in body
    assert "a single repetition" in body and "TPOT p50 holds up to 30" in body
    assert "the queue grows" in body  # why the stage at 50 is invalid
    assert 'title="Few requests' in body


@pytest.mark.parametrize(
    ("verdict", "text", "title"),
    [
        ("drifted", "none: the closing baseline is 23% slower", "No verdict: the service drifted"),
        ("baseline_unstable", "none: baseline unstable", "No verdict: the baseline is unstable"),
        ("no_valid_stage", "none: no valid stage", "No verdict: no valid stage"),
        ("ok", "none: nothing was judged", "No load line"),
    ],
)
def test_no_verdict_is_said_in_words(page, verdict, text, title):
    limit = {**NONE, "limited_by": None, "text": text}
    run = make_run(ticks=False, result={"verdict": verdict, "max_concurrency": limit})
    body = body_of(page, run)
    assert title in body and text in body
    assert "hero__value" not in body


@pytest.mark.parametrize("verdict", ["drifted", "baseline_unstable", "no_valid_stage"])
def test_without_a_verdict_a_reason_is_said_once_and_nothing_is_sure(page, verdict):
    reason = "50 takes no part: the load generator was late"
    limit = {**NONE, "limited_by": None, "text": f"none: no verdict: {reason}"}
    result = {"verdict": verdict, "max_concurrency": limit, "confidence": "normal", "doubts": [], "notes": [reason]}
    body = body_of(page, make_run(ticks=False, result=result))
    assert body.count(reason) == 1
    assert "How sure" not in body and "no known doubt" not in body


def test_a_run_that_measured_its_baseline_alone_says_so(page):
    text = "none: no stage beyond the baseline was measured"
    result = {"verdict": "no_valid_stage", "max_concurrency": {**NONE, "limited_by": None, "text": text}}
    body = body_of(page, make_run(ticks=False, stages=(LADDER[0], LADDER[-1]), result=result))
    assert "No verdict: nothing beyond the baseline was measured" in body and text in body
    assert "no valid stage" not in body


@pytest.mark.parametrize(("within", "words"), [("beyond", "invalid, yet beyond"), (None, "invalid")])
def test_an_invalid_stage_says_whether_it_is_evidence(page, within, words):
    run = make_run(ticks=False)
    document = run.result.document
    document["stages"][5]["within"] = within
    row = results_page(document, []).stages[5]
    assert f"</span> {words}</span>" in stage_mark(row.mark)
    RunResult.objects.filter(run=run).update(document=document)
    body = body_of(page, run)
    assert f"</span> {words}</span>" in body and "only flatter the server still counts as evidence" in body


@pytest.mark.parametrize(("relation", "shown"), [(">=", "≥ 50"), ("<", "&lt; 5")])
def test_a_load_line_beyond_the_ladder_keeps_its_sign(page, relation, shown):
    value = 50 if relation == ">=" else 5
    limit = {**NONE, "value": value, "relation": relation, "limited_by": None, "text": "in words"}
    assert f'hero__value">{shown}' in body_of(page, make_run(ticks=False, result={"max_concurrency": limit}))


@pytest.mark.parametrize(
    ("state", "advice"),
    [
        (RunState.FAILED, "Check the target with its preflight"),
        (RunState.ABORTED, "Look at the failures"),
        (RunState.CANCELLED, "Run again for a full answer"),
        (RunState.INTERRUPTED, "Resume it"),
    ],
)
def test_a_run_that_did_not_end_well_says_why_and_what_to_do(page, state, advice):
    run = make_run(state=state, stages=LADDER[:2], end_reason="the reason in words", result=False, ticks=False)
    body = body_of(page, run)
    assert "the reason in words" in body and advice in body
    assert (reverse("run-resume", args=[run.pk]) in body) == (state == RunState.INTERRUPTED)


def test_a_cancelled_run_with_results_shows_both(page):
    body = body_of(page, make_run(state=RunState.CANCELLED, end_reason="Cancelled by ann", ticks=False))
    assert "Cancelled by ann" in body and "hero__value" in body


def test_a_simulated_run_says_so_on_each_of_its_pages(page):
    over = make_run(simulated=True, ticks=False)
    live = make_run(make_campaign("c2", target=make_target("t2")), state=RunState.RUNNING, simulated=True, ticks=False)
    for run in (over, live):
        body = body_of(page, run)
        assert "(simulated)" in body.partition("</title>")[0] and "badge--simulated" in body
    for address in (reverse("campaign-list"), reverse("campaign-detail", args=[over.campaign_id])):
        assert "badge--simulated" in page.get(address).content.decode()


def test_what_charts_draw_is_what_the_table_says(page):
    run = make_run(ticks=False)
    response = page.get(reverse("run-detail", args=[run.pk]))
    charts = json.loads(
        response.content.decode()
        .partition('<script id="chart-data" type="application/json">')[2]
        .partition("</script>")[0]
    )
    document = run.result.document
    points = {(one["x"], one["kind"]): one for one in charts["latency"]["ttft_ms"]["points"]}
    assert len(points) == len(document["stages"])
    for stage in document["stages"]:
        point = points[stage["concurrency"], stage["kind"]]
        assert (point["p50"], point["p99"]) == (stage["ttft_ms"]["p50"], stage["ttft_ms"]["p99"])
        assert point["valid"] == stage["valid"]
    assert charts["latency"]["ttft_ms"]["limits"] == [
        {"stat": "p50", "value": 180.0, "text": "p50 limit: 1.5 × baseline"}
    ]
    assert charts["load_line"] == {"value": 22, "low": 22, "high": 25}
    fit = charts["throughput"]["fit"]
    assert len(fit) > 10
    # The curve goes through what was measured: both are in requests a second.
    measured = {point["x"]: point["y"] for point in charts["throughput"]["points"]}
    assert (fit[0]["y"], fit[-1]["y"]) == (pytest.approx(measured[1]), pytest.approx(measured[50]))


def test_results_without_some_numbers_are_gaps_not_zeros(page):
    run = make_run(ticks=False)
    document = run.result.document
    for stage in document["stages"]:
        stage.update(ttft_ms=None, output_tokens_per_s=None, per_class={}, degradation={})
    document.update(scaling=None, per_criterion=[])
    run.result.document = document
    run.result.save()
    body = body_of(page, run)
    data = body.partition('type="application/json">')[2].partition("</script>")[0]
    assert all(one["p50"] is None for one in json.loads(data)["latency"]["ttft_ms"]["points"])
    assert "—" in body


def test_the_command_to_reproduce_names_no_secret(page):
    target = make_target(api_key="sk-secret-1", headers='{"X-Key": "hidden-2"}')
    run = make_run(make_campaign(target=target), ticks=False, deployment={"image": "vllm:1"}, notes="noted")
    body = body_of(page, run)
    assert "python -m workers.loadgen PLAN.json" in body and "TARGET_API_KEY" in body and "X-Key" in body
    assert "sk-secret-1" not in body and "hidden-2" not in body
    assert "vllm:1" in body and "noted" in body
    for format in ("arrow", "parquet", "csv", "jsonl"):
        assert f"/api/v1/runs/{run.pk}/requests?format={format}" in body


def test_cancelling_asks_the_run_to_stop(page):
    run = make_run(state=RunState.RUNNING, stages=LIVE, ticks=False)
    response = page.post(reverse("run-cancel", args=[run.pk]), follow=True)
    run.refresh_from_db()
    assert run.cancel_requested_at is not None
    assert "ann asked to stop it" in response.content.decode()


def test_cancelling_from_two_tabs_at_once_is_harmless(page):
    run = make_run(state=RunState.RUNNING, stages=LIVE, ticks=False)
    for _ in range(2):
        assert page.post(reverse("run-cancel", args=[run.pk])).status_code == 302
    assert run.events.filter(kind="cancel_requested").count() == 1


def test_what_cannot_be_done_any_more_is_said(page):
    run = make_run(ticks=False)
    for name, words in (("run-cancel", "already over"), ("run-resume", "Only an interrupted run")):
        assert words in page.post(reverse(name, args=[run.pk]), follow=True).content.decode()


def test_an_interrupted_run_is_resumed(page, monkeypatch):
    monkeypatch.setattr("campaigns.services.resume.enqueue", lambda run: None)
    run = make_run(state=RunState.INTERRUPTED, stages=LADDER[:2], end_reason="lost", result=False, ticks=False)
    page.post(reverse("run-resume", args=[run.pk]))
    assert Run.objects.get(pk=run.pk).state == RunState.QUEUED


def live(page, run, **query):
    return page.get(reverse("run-live", args=[run.pk]), query).json()


def test_the_feed_has_the_whole_history_and_then_what_is_new(page):
    run = make_run(state=RunState.RUNNING, stages=LIVE)
    first = live(page, run)
    assert first["ticks"]["columns"] == ["t_s", *SERIES]
    assert len(first["ticks"]["rows"]) == StageTick.objects.filter(stage__run=run).count()
    times = [row[0] for row in first["ticks"]["rows"]]
    assert times == sorted(times)
    assert [one["state"] for one in first["stages"]] == ["done"] * 3 + ["running"] + ["next"] * 3
    assert live(page, run, **first["cursor"])["ticks"]["rows"] == []
    StageTick.objects.create(
        stage=run.stages.latest("index"), t_s=21.0, progress={"in_flight": 20, "ttft_ms_p50": None}
    )
    second = live(page, run, **first["cursor"])
    assert [row[1] for row in second["ticks"]["rows"]] == [20]
    assert second["ticks"]["rows"][0][3] is None
    assert second["events"] == []
    reloaded = live(page, run)
    assert reloaded["ticks"]["rows"] == first["ticks"]["rows"] + second["ticks"]["rows"]


def test_the_feed_says_when_the_run_is_over(page):
    answer = live(page, make_run(ticks=False))
    assert (answer["is_over"], answer["state"], answer["more"]) == (True, "done", False)


@pytest.mark.parametrize("cursor", ["x", "-1", "9" * 30, "1.5", ""])
def test_a_cursor_that_is_none_starts_at_the_beginning(page, cursor):
    run = make_run(state=RunState.RUNNING, stages=LIVE)
    assert live(page, run, tick=cursor, event=cursor)["events"]


def test_a_run_keeps_the_names_it_was_launched_with(page):
    target, mix = make_target("before"), make_mix("mix before")
    run = make_run(make_campaign(target=target, mix=mix), ticks=False)
    target.name = "after"
    target.save()
    assert "before" in body_of(page, run).partition("</main>")[0]


def test_events_that_follow_each_other_closely_are_told_apart(page):
    run = make_run(ticks=False)
    event = run.events.first()
    assert event is not None
    at = event.at.replace(hour=11, minute=22, second=33)
    run.events.filter(pk=event.pk).update(at=at)
    assert f"data-seconds>{at:%Y-%m-%d} 11:22:33</time>" in body_of(page, run)
