"""A launch form that is sent twice at once makes one campaign and one run."""

from __future__ import annotations

import threading

import pytest
from django.db import connection

from campaigns.models import Campaign, Mix, Run
from campaigns.services.first_launch import create_and_launch
from campaigns.services.inputs import LaunchInput
from campaigns.services.mixes import PRESETS
from tests.campaigns.services.builders import campaign_input, make_mix, make_target, make_user


@pytest.fixture(autouse=True)
def _no_message_to_workers(monkeypatch):
    monkeypatch.setattr("campaigns.services.launch.enqueue", lambda run: None)


@pytest.mark.django_db(transaction=True)
def test_sent_twice_at_once_it_makes_one_run():
    user, data = make_user(), campaign_input(make_target(), make_mix())
    found = []

    def send():
        found.append(create_and_launch(user, data, LaunchInput(idempotency_key="k"), PRESETS[0]))
        connection.close()

    threads = [threading.Thread(target=send) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({one.run.pk for one in found}) == 1
    assert sorted(one.is_new for one in found) == [False, False, False, True]
    assert (Run.objects.count(), Campaign.objects.count()) == (1, 1)
    assert Mix.objects.filter(name=PRESETS[0].name).count() == 1


@pytest.mark.django_db
def test_one_key_of_two_people_is_two_launches():
    data = campaign_input(make_target(), make_mix())
    runs = {
        create_and_launch(make_user(name), data, LaunchInput(idempotency_key="k")).run.pk for name in ("ann", "bob")
    }
    assert len(runs) == 2
