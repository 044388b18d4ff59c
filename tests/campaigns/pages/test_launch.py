"""The launch form: the defaults of the load line, what it costs, and one run however often it is sent."""

from __future__ import annotations

import pytest
from django.urls import reverse

from campaigns.models import Campaign, Mix, Run
from campaigns.pages.forms.campaign import CRITERION_COLUMNS, CampaignForm
from campaigns.services.mixes import PRESETS
from tests.campaigns.builders import make_campaign, make_mix, make_run, make_target


@pytest.fixture(autouse=True)
def _no_message_to_workers(monkeypatch):
    # Launching is tested here, not Celery: the queue row is what counts, and no worker listens.
    monkeypatch.setattr("campaigns.services.launch.enqueue", lambda run: None)


def sent_form(page, **changes):
    """The form as the browser has it when nothing was touched."""
    form: CampaignForm = page.get(reverse("campaign-new")).context["form"]
    data = {name: form[name].value() for name in form.fields}
    data = {name: "" if value is None else value for name, value in data.items() if value is not False}
    for name in ("target", "mix"):
        data[name] = changes.pop(name, form.fields[name].widget.choices[0][0])
    for column in CRITERION_COLUMNS:
        data[f"criterion-{column}"] = [row.values[column] for row in form.rows["criteria"]]
    return {**data, **changes}


def launch(page, **changes):
    return page.post(reverse("campaign-new"), sent_form(page, **changes))


def test_the_untouched_form_launches_the_load_line_test(page):
    target, mix = make_target(), make_mix()
    response = launch(page)
    run = Run.objects.get()
    assert response["Location"] == reverse("run-detail", args=[run.pk])
    plan = run.frozen_plan
    assert plan.stages == [1, 5, 10, 20, 30, 50]
    assert (plan.stage_s, plan.warmup_s, plan.baseline_s, plan.drain_s, plan.timeout_s) == (300, 30, 300, 120, 600)
    limits = [(one.metric, one.stat, one.max_degradation_pct) for one in plan.criteria]
    assert limits == [("ttft_ms", "p50", 50), ("tpot_ms", "p50", 50)]
    assert (plan.refine.enabled, plan.refine.budget_s, plan.repeats) == (True, 1800, 1)
    assert (plan.abort.error_pct, plan.abort.after_s) == (50, 30)
    assert (run.target, plan.mix.id, str(run.created_by)) == (target, mix.pk, "ann")
    assert run.campaign.name == f"{target.name}, {mix.name}"


def test_a_preset_becomes_a_mix_when_it_is_launched(page):
    make_target()
    assert not Mix.objects.exists()
    launch(page)
    launch(page)
    mix = Mix.objects.get()
    assert (mix.name, mix.classes) == (PRESETS[0].name, PRESETS[0].classes)
    assert Run.objects.count() == 2


@pytest.mark.parametrize("column", CRITERION_COLUMNS)
def test_a_criterion_that_no_form_offers_is_an_error_of_its_row(page, column):
    make_target()
    response = launch(page, **{f"criterion-{column}": ["forged", "forged"]})
    assert response.status_code == 422 and not Run.objects.exists()
    assert "row__errors" in response.content.decode()


@pytest.mark.parametrize(
    "change",
    [
        {"label": "another"},
        {"notes": "another"},
        {"deployment": "image = another"},
        {"stages": "1, 7"},
        {"stage_s": "77"},
        {"criterion-limit": ["77", "50"]},
        {"refine_enabled": ""},
        {"generation": '{"top_p": 0.5}'},
        {"mix": "preset-1"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_going_back_to_change_the_form_makes_another_run(page, change):
    make_target()
    sent = sent_form(page)
    first, *others = [page.post(reverse("campaign-new"), data)["Location"] for data in (sent, {**sent, **change}, sent)]
    assert others[0] != first and others[1] == first
    assert Run.objects.count() == 2


def test_a_preset_that_became_a_mix_meanwhile_is_the_same_launch(page):
    """After "back" the browser may offer the mix in the place of the preset."""
    make_target()
    sent = sent_form(page)
    first = page.post(reverse("campaign-new"), sent)["Location"]
    assert sent["mix"] == "preset-0"
    assert page.post(reverse("campaign-new"), {**sent, "mix": str(Mix.objects.get().pk)})["Location"] == first


def test_a_form_that_is_sent_twice_makes_one_run(page):
    make_target()
    data = sent_form(page)
    first = page.post(reverse("campaign-new"), data)
    again = page.post(reverse("campaign-new"), data, follow=True)
    assert Run.objects.count() == Campaign.objects.count() == 1
    assert again.redirect_chain[-1][0] == first["Location"]
    assert "That form was sent before" in again.content.decode()


def test_everything_that_was_set_reaches_the_run(page):
    make_target()
    launch(
        page,
        name="Named",
        label="fp8",
        notes="two\r\nlines",
        deployment="image = vllm:1\nflags = --tp 4",
        stages="2 4, 8",
        repeats="3",
        refine_enabled="",
        generation='{"temperature": 0.5}',
        drivers="host.gpu-1",
        **{
            "criterion-metric": ["ttft_ms", "e2e_ms"],
            "criterion-stat": ["p99", "p90"],
            "criterion-kind": ["value", "degradation"],
            "criterion-limit": ["2000", "25"],
        },
    )
    run = Run.objects.get()
    plan = run.frozen_plan
    assert (run.campaign.name, run.label, run.notes) == ("Named", "fp8", "two\nlines")
    assert run.deployment == {"image": "vllm:1", "flags": "--tp 4"}
    assert (plan.stages, plan.repeats, plan.refine.enabled, plan.drivers) == ([2, 4, 8], 3, False, ["host.gpu-1"])
    assert plan.generation == {"temperature": 0.5}
    assert [(one.metric, one.stat, one.max_value, one.max_degradation_pct) for one in plan.criteria] == [
        ("ttft_ms", "p99", 2000, None),
        ("e2e_ms", "p90", None, 25),
    ]


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("stages", "1, 5, 3", "Must rise from each to the next, but 3 follows 5"),
        ("stages", "1, x", "a stage must be a number"),
        ("stages", "", "This field is required"),
        ("stage_s", "0", "Must be above 0"),
        ("generation", "{", "Must be a JSON object"),
        ("generation", '{"stream": false}', "Brimline sets it itself"),
        ("deployment", "no equals sign", "Line 1 must be written as name= value"),
        ("seed", "-1", "Must be from 0"),
        ("refine_budget_s", "-5", "Must be from 0"),
    ],
)
def test_what_is_wrong_is_said_beside_its_field_and_nothing_is_made(page, field, value, said):
    make_target()
    response = launch(page, **{field: value, "label": "kept"})
    body = response.content.decode()
    assert response.status_code == 422
    assert said in body.replace("&quot;", '"').replace("&#x27;", "'")
    assert f'id="id_{field}_error"' in body and 'value="kept"' in body
    assert not Run.objects.exists() and not Campaign.objects.exists() and not Mix.objects.exists()


def test_a_limit_that_is_no_number_is_said_in_its_row(page):
    make_target()
    body = launch(page, **{"criterion-limit": ["50", "lots"]}).content.decode()
    assert "the limit must be a number, not “lots”" in body and not Run.objects.exists()


def test_without_a_target_the_page_leads_to_one(page):
    body = page.get(reverse("campaign-new")).content.decode()
    assert "There is no target to launch on" in body and reverse("target-new") in body


def test_the_address_chooses_target_and_mix(page):
    make_target("first")
    second, mix = make_target("second"), make_mix("other")
    form = page.get(reverse("campaign-new"), {"target": second.pk, "mix": mix.pk}).context["form"]
    assert (str(form["target"].value()), str(form["mix"].value())) == (str(second.pk), str(mix.pk))


def test_the_estimate_follows_the_form(page):
    make_target()
    address = reverse("launch-estimate")
    sent = sent_form(page, refine_enabled="", drain_s="0")
    assert "36 min" in page.post(address, sent).content.decode()
    sent["stages"] = "5, 1"
    assert "Complete the form" in page.post(address, sent).content.decode()
    assert not Run.objects.exists()


def test_the_newest_preflight_of_the_chosen_target_is_shown(page):
    report = {"ok": True, "simulated": True, "at": "2026-01-01T00:00:00+00:00", "checks": [], "detected": {}}
    target = make_target(preflight=report)
    body = page.get(reverse("launch-preflight"), {"target": target.pk}).content.decode()
    assert "Ready" in body and "simulated" in body
    assert page.get(reverse("launch-preflight"), {"target": "x"}).status_code == 404


def test_a_campaign_is_run_again_with_its_own_label(page):
    before = make_run(deployment={"image": "vllm:1"}, ticks=False)
    address = reverse("campaign-detail", args=[before.campaign_id])
    shown = page.get(address)
    assert "image = vllm:1" in shown.content.decode()
    token = shown.context["form"]["token"].value()
    sent = {"token": token, "label": "second", "deployment": "image = vllm:2"}
    launch_address = reverse("run-launch", args=[before.campaign_id])
    first, again = page.post(launch_address, sent), page.post(launch_address, sent)
    run = Run.objects.latest("pk")
    assert first["Location"] == again["Location"] == reverse("run-detail", args=[run.pk])
    assert (Run.objects.count(), run.label, run.deployment) == (2, "second", {"image": "vllm:2"})
    page.post(launch_address, {**sent, "label": "third"})
    assert (Run.objects.count(), Run.objects.latest("pk").label) == (3, "third")


def test_a_campaign_whose_target_is_archived_says_why_it_cannot_be_launched(page, admin):
    campaign = make_campaign()
    admin.post(reverse("target-archive", args=[campaign.target_id]))
    body = page.get(reverse("campaign-detail", args=[campaign.pk])).content.decode()
    assert "disabled" in body and "Its target is archived." in body
    response = page.post(reverse("run-launch", args=[campaign.pk]), {"token": "x"})
    assert response.status_code == 422 and "is archived" in response.content.decode()
