"""Everyone logs in; viewers read everything and change nothing; actions are POST only."""

from __future__ import annotations

import pytest
from django.test import Client
from django.urls import reverse

from campaigns.models import Mix, Run, RunState, Scope, Target
from campaigns.services.mixes import archive_mix
from tests.campaigns.api.calls import CALLS
from tests.campaigns.builders import PASSWORD, make_campaign, make_mix, make_run, make_target, make_user

READ = ["home", "target-list", "target-detail", "mix-list", "campaign-list", "campaign-new", "campaign-detail"]
READ += ["run-detail", "run-live"]
FORMS = ["target-new", "target-edit", "mix-new", "mix-edit"]
ARCHIVING = ["target-archive", "target-unarchive", "mix-archive", "mix-unarchive"]
ACTIONS = ["target-preflight", *ARCHIVING, "run-launch", "run-cancel", "run-resume"]


@pytest.fixture
def addresses(db: None) -> dict[str, str]:
    """Every page's address, with something to show behind it."""
    target, mix = make_target(), make_mix()
    campaign = make_campaign(target=target, mix=mix)
    run = make_run(campaign, state=RunState.RUNNING)
    key = {"target": target.pk, "mix": mix.pk, "campaign": campaign.pk, "run": run.pk}
    key_of = {**{name: key[name.split("-")[0]] for name in READ + FORMS + ACTIONS if name != "home"}}
    key_of["run-launch"] = campaign.pk
    plain = {"home", "target-list", "mix-list", "campaign-list", "campaign-new", "target-new", "mix-new"}
    return {
        name: reverse(name) if name in plain else reverse(name, args=[key_of[name]]) for name in READ + FORMS + ACTIONS
    }


@pytest.mark.parametrize("name", READ + FORMS)
def test_without_a_login_every_page_leads_to_it(addresses, name):
    response = Client().get(addresses[name])
    assert response.status_code == 302
    assert response["Location"] == f"{reverse('login')}?next={addresses[name]}"


@pytest.mark.parametrize("name", ACTIONS)
def test_without_a_login_no_action_happens(addresses, name):
    before = list(Run.objects.values_list("state", "cancel_requested_at"))
    response = Client().post(addresses[name])
    assert response.status_code == 302
    assert response["Location"].startswith(reverse("login"))
    assert list(Run.objects.values_list("state", "cancel_requested_at")) == before


@pytest.mark.parametrize("name", READ)
def test_a_viewer_reads_every_page(addresses, viewer, name):
    assert viewer.get(addresses[name]).status_code == 200


@pytest.mark.parametrize("name", FORMS)
def test_a_viewer_gets_no_form_that_changes_something(addresses, viewer, name):
    response = viewer.get(addresses[name])
    assert response.status_code == 403
    assert "Your role is viewer" in response.content.decode()


@pytest.mark.parametrize("name", [*ACTIONS, "campaign-new", *FORMS])
def test_a_viewer_cannot_act(addresses, viewer, name):
    assert viewer.post(addresses[name]).status_code == 403
    assert Run.objects.count() == 1
    assert Target.objects.filter(archived_at=None).count() == 1


@pytest.mark.parametrize("name", ARCHIVING)
def test_archiving_is_for_admins_in_pages_as_in_the_api(addresses, page, name):
    response = page.post(addresses[name])
    assert response.status_code == 403 and "Only an admin may archive" in response.content.decode()
    assert Target.objects.current().exists() and Mix.objects.current().exists()
    operation = "delete" if name.endswith("-archive") else "unarchive"
    family = "targets" if name.startswith("target") else "mixes"
    (scope,) = [call.scope for call in CALLS if f"/{family}/" in call.path and operation in str(call)]
    assert scope == Scope.ADMIN


def test_only_an_admin_sees_how_to_archive(addresses, page, admin):
    archive_mix(make_mix("old"))
    for name, words in (("target-detail", "Archive"), ("mix-edit", "Archive"), ("mix-list", "Archived")):
        for browser, sees in ((page, False), (admin, True)):
            assert (f">{words}<" in browser.get(addresses[name]).content.decode()) is sees, name


@pytest.mark.parametrize("name", ACTIONS)
def test_an_action_is_a_post(addresses, page, name):
    assert page.get(addresses[name]).status_code == 405


@pytest.mark.parametrize("name", READ)
def test_a_page_is_not_posted_to(addresses, page, name):
    if name != "campaign-new":
        assert page.post(addresses[name]).status_code == 405


def test_a_viewer_sees_no_button_that_launches(addresses, viewer):
    for name in ("home", "target-detail", "campaign-detail", "run-detail"):
        body = viewer.get(addresses[name]).content.decode()
        assert reverse("campaign-new") not in body.replace(f'href="{reverse("campaign-list")}"', "")
        assert "Cancel run" not in body
    launch = viewer.get(addresses["campaign-new"]).content.decode()
    assert "disabled" in launch and "Ask an admin for the launcher role" in launch


def test_logging_in_leads_to_the_page_that_was_asked_for(db):
    make_user("ann")
    client = Client()
    wanted = reverse("target-list")
    response = client.post(
        f"{reverse('login')}?next={wanted}", {"username": "ann", "password": PASSWORD, "next": wanted}
    )
    assert response["Location"] == wanted


def test_a_wrong_password_says_so_and_keeps_the_name(db):
    make_user("ann")
    response = Client().post(reverse("login"), {"username": "ann", "password": "wrong"})
    body = response.content.decode()
    assert "correct username and password" in body and 'value="ann"' in body


def test_logging_out_is_a_post(page):
    assert page.get(reverse("logout")).status_code == 405
    assert page.post(reverse("logout"))["Location"] == reverse("login")
    assert page.get(reverse("home")).status_code == 302


def test_what_is_not_there_is_a_page_of_our_own(page):
    for address in ("/nowhere/", reverse("run-detail", args=[999]), reverse("target-detail", args=[999])):
        response = page.get(address)
        assert response.status_code == 404
        assert "There is nothing here" in response.content.decode()


def test_a_form_without_its_token_is_a_page_of_our_own(db):
    client = Client(enforce_csrf_checks=True)
    response = client.post(reverse("login"), {"username": "ann", "password": "x"})
    assert response.status_code == 403
    assert "too old to be trusted" in response.content.decode()
