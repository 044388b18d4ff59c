"""The pages of targets: what was typed is kept on an error, secrets go in and never come out, preflight is inline."""

from __future__ import annotations

import pytest
from django.urls import reverse

from campaigns.models import RunState, Target
from tests.campaigns.builders import make_campaign, make_run, make_target

KEY = "sk-very-secret-41"
TYPED = {"name": "t", "base_url": "http://127.0.0.1:9/v1", "model": "m", "protocol": "openai-chat", "verify_tls": "on"}


def create(page, **changes):
    return page.post(reverse("target-new"), {**TYPED, **changes})


def test_a_target_is_created(page):
    sent = {"gpu_count": "4", "gpu_model": "H200", "tags": "fp8, staging", "headers": "X-Team: bench"}
    metrics = {
        "metrics-kind": ["dcgm", "engine"],
        "metrics-url": ["http://h:9400/metrics", ""],
        "metrics-queue": ["", ""],
    }
    response = create(page, **sent, **metrics, api_key=KEY)
    target = Target.objects.get()
    assert response["Location"] == reverse("target-detail", args=[target.pk])
    assert (target.gpu_count, target.tags, target.verify_tls) == (4, ["fp8", "staging"], True)
    assert target.metrics == [{"kind": "dcgm", "url": "http://h:9400/metrics"}]
    assert target.api_key.reveal() == KEY


def test_saving_can_lead_straight_to_the_launch_form(page):
    response = create(page, then_launch="1")
    assert response["Location"] == f"{reverse('campaign-new')}?target={Target.objects.get().pk}"


def test_an_address_that_is_none_is_said_beside_its_field_and_what_was_typed_stays(page):
    response = create(page, base_url="h:8000", name="kept", tags="x,y")
    body = response.content.decode()
    assert response.status_code == 422
    assert "id_base_url_error" in body
    assert 'value="kept"' in body and 'value="x,y"' in body and 'value="h:8000"' in body
    assert not Target.objects.exists()


def test_every_problem_is_said_at_once(page):
    body = create(page, base_url="ftp://h", gpu_count="0", queue="a b").content.decode()
    for id_ in ("id_base_url_error", "id_gpu_count_error", "id_queue_error"):
        assert id_ in body


def test_a_problem_of_a_metrics_source_is_said_in_its_row(page):
    body = create(page, **{"metrics-kind": ["dcgm"], "metrics-url": [""], "metrics-queue": ["x"]}).content.decode()
    assert "row__errors" in body and "is required" in body


def test_a_secret_is_never_in_a_page(page):
    create(page, api_key=KEY, headers=f"X-Key: {KEY}")
    target = Target.objects.get()
    for name in ("target-detail", "target-edit"):
        assert KEY not in page.get(reverse(name, args=[target.pk])).content.decode()
    wrong = page.post(
        reverse("target-edit", args=[target.pk]), {**TYPED, "base_url": "nonsense", "api_key": KEY + "new"}
    )
    assert KEY not in wrong.content.decode()


@pytest.mark.parametrize(
    ("sent", "left"), [({}, KEY), ({"api_key": "sk-other"}, "sk-other"), ({"clear_api_key": "on"}, "")]
)
def test_a_key_is_kept_replaced_or_cleared(page, sent, left):
    create(page, api_key=KEY)
    target = Target.objects.get()
    page.post(reverse("target-edit", args=[target.pk]), {**TYPED, **sent})
    target.refresh_from_db()
    assert target.api_key.reveal() == left


def test_a_new_key_and_clearing_it_cannot_be_meant_together(page):
    create(page, api_key=KEY)
    address = reverse("target-edit", args=[Target.objects.get().pk])
    response = page.post(address, {**TYPED, "api_key": "sk-new", "clear_api_key": "on"})
    assert response.status_code == 422
    assert Target.objects.get().api_key.reveal() == KEY


def test_a_header_line_without_a_colon_is_said_without_repeating_it(page):
    body = create(page, headers="X-Ok: 1\nsecret-without-colon").content.decode()
    assert "Line 2 must be written as" in body


def test_preflight_is_shown_inline_with_what_to_do(page):
    """Nothing listens there, so the check fails for a real reason."""
    create(page)
    target = Target.objects.get()
    address = reverse("target-preflight", args=[target.pk])
    body = page.post(address, headers={"HX-Request": "true"}).content.decode()
    assert "<html" not in body
    assert "reachable" in body and "fails" in body and "Not ready" in body and "→" in body
    assert page.post(address)["Location"] == reverse("target-detail", args=[target.pk])


def test_a_target_in_use_is_not_archived_and_the_page_says_why(admin):
    run = make_run(make_campaign(target=make_target()), state=RunState.RUNNING, ticks=False)
    response = admin.post(reverse("target-archive", args=[run.target_id]), follow=True)
    assert "cancel it first" in response.content.decode()
    assert Target.objects.current().exists()


def test_an_archived_target_leaves_the_list_and_keeps_its_page(admin):
    target = make_target("old one")
    admin.post(reverse("target-archive", args=[target.pk]))
    address = reverse("target-detail", args=[target.pk])
    assert f'href="{address}"' not in admin.get(reverse("target-list")).content.decode()
    assert "archived" in admin.get(reverse("target-detail", args=[target.pk])).content.decode()
    assert admin.get(reverse("target-edit", args=[target.pk])).status_code == 404


def test_an_archived_target_is_put_back_into_use(admin):
    target = make_target()
    admin.post(reverse("target-archive", args=[target.pk]))
    assert "Use it again" in admin.get(reverse("target-detail", args=[target.pk])).content.decode()
    assert target.name in admin.get(reverse("target-list")).content.decode()
    again = admin.post(reverse("target-unarchive", args=[target.pk]), follow=True)
    assert "is in use again" in again.content.decode()
    assert Target.objects.current().get() == target


def test_a_name_that_was_taken_meanwhile_keeps_a_target_archived(admin):
    target = make_target("same")
    admin.post(reverse("target-archive", args=[target.pk]))
    make_target("same")
    again = admin.post(reverse("target-unarchive", args=[target.pk]), follow=True)
    assert "is taken" in again.content.decode()
    assert Target.objects.filter(pk=target.pk).exclude(archived_at=None).exists()
