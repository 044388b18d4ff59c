"""Targets are checked field by field, keep their secrets to themselves, and are not changed under a run."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest
from django.db import connection

from campaigns.models import Run, RunState, Target
from campaigns.services.errors import Conflict, InvalidInput
from campaigns.services.targets import archive_target, create_target, describe_target, headers_of, update_target
from tests.campaigns.services.builders import make_campaign, make_run, make_target, make_user, target_input

pytestmark = pytest.mark.django_db


def problems_of(**changes: Any) -> dict[str, list[str]]:
    with pytest.raises(InvalidInput) as caught:
        make_target(**changes)
    return caught.value.fields


def test_a_target_is_described_without_its_secrets() -> None:
    target = make_target(
        api_key="sk-secret-1",
        headers={"X-Auth-Token": "tok-456"},
        metrics=[{"kind": "engine", "url": "http://127.0.0.1:8000/metrics"}, {"kind": "nvml", "queue": "host.a"}],
        tags=["prod"],
        gpu_count=2,
    )
    target.refresh_from_db()
    shape = describe_target(target)
    assert shape["has_api_key"] is True
    assert shape["header_names"] == ["X-Auth-Token"]
    assert "sk-secret-1" not in json.dumps(shape) and "tok-456" not in json.dumps(shape)
    assert target.api_key.reveal() == "sk-secret-1"
    assert headers_of(target) == {"X-Auth-Token": "tok-456"}
    assert shape["created_by"] == "ann"
    assert shape["metrics"][1] == {"kind": "nvml", "queue": "host.a"}


@pytest.mark.parametrize("name", ["", "  ", "x" * 121, "a\nb", "nul\x00", "turned \u202e round"])
def test_a_bad_name_is_refused(name: str) -> None:
    assert list(problems_of(name=name)) == ["name"]


def test_markup_in_a_name_is_kept_as_it_is() -> None:
    assert make_target(name="<img src=x onerror=alert(1)>{{7*7}}").name == "<img src=x onerror=alert(1)>{{7*7}}"


@pytest.mark.parametrize(
    "address",
    ["", "h:8000", "ftp://h", "http://", "http://h:99999", "https://u:p@h/v1", "http://h/a b", "http://h/\nx", "//h"],
)
def test_an_address_that_cannot_be_called_is_refused(address: str) -> None:
    assert "base_url" in problems_of(base_url=address)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"model": " "}, "model"),
        ({"model": "m" * 301}, "model"),
        ({"protocol": "soap"}, "protocol"),
        ({"gpu_count": 0}, "gpu_count"),
        ({"queue": "a b"}, "queue"),
        ({"api_key": "a\nb"}, "api_key"),
        ({"headers": {"X-A": "v\r\nX-B: w"}}, "headers"),
        ({"headers": {"X A": "v"}}, "headers"),
        ({"headers": {"": "v"}}, "headers"),
        ({"headers": {"X-A": "1", "x-a": "2"}}, "headers"),
        ({"headers": {"Host": "h"}}, "headers"),
        ({"headers": {"content-length": "3"}}, "headers"),
        ({"api_key": "k", "headers": {"authorization": "Basic x"}}, "headers"),
        ({"metrics": [{"kind": "oracle"}]}, "metrics[0].kind"),
        ({"metrics": [{"kind": "dcgm"}]}, "metrics[0].url"),
        ({"metrics": [{"kind": "nvml", "url": "http://h/"}]}, "metrics[0].url"),
        ({"metrics": [{"kind": "engine", "url": "http://u:p@h/"}]}, "metrics[0].url"),
        ({"metrics": [{"knd": "engine"}]}, "metrics[0].knd"),
        ({"tags": ["a", ""]}, "tags[1]"),
    ],
)
def test_a_bad_field_is_named(changes: dict[str, Any], field: str) -> None:
    assert field in problems_of(**changes)


def test_a_header_value_is_not_repeated_in_the_message() -> None:
    with pytest.raises(InvalidInput) as caught:
        make_target(headers={"X-Auth": "tok-456\n"}, api_key="sk-1\n2")
    assert "tok-456" not in caught.value.message + str(caught.value.fields)
    assert "sk-1" not in caught.value.message + str(caught.value.fields)


def test_authorization_may_be_a_header_when_there_is_no_key() -> None:
    assert describe_target(make_target(headers={"Authorization": "Basic x"}))["header_names"] == ["Authorization"]


def test_secrets_not_given_are_kept_and_empty_ones_cleared() -> None:
    target = make_target(api_key="sk-secret-1", headers={"X-A": "v"})
    target = update_target(target, target_input(name="renamed"))
    assert (target.name, target.api_key.reveal(), headers_of(target)) == ("renamed", "sk-secret-1", {"X-A": "v"})
    target = update_target(target, target_input(api_key="", headers={}))
    target.refresh_from_db()
    assert (bool(target.api_key), headers_of(target)) == (False, {})
    assert not describe_target(target)["has_api_key"]


def test_a_stored_key_is_not_sent_to_another_address() -> None:
    target = make_target(api_key="sk-secret-1", headers={"X-A": "v"})
    with pytest.raises(InvalidInput) as caught:
        update_target(target, target_input(base_url="http://127.0.0.1:9/v1"))
    assert set(caught.value.fields) == {"api_key", "headers"}
    moved = update_target(target, target_input(base_url="http://127.0.0.1:9/v1", api_key="new", headers={}))
    assert moved.api_key.reveal() == "new"
    assert update_target(moved, target_input(base_url="http://127.0.0.1:9/v2")).api_key.reveal() == "new"


def test_a_name_is_taken_once_until_it_is_archived() -> None:
    first = make_target()
    assert problems_of() == {"name": ["is taken: another target has this name; choose another one"]}
    archive_target(first)
    archive_target(first)
    make_target()
    with pytest.raises(Conflict, match="archived"):
        update_target(first, target_input(name="back"))


def test_an_address_is_not_changed_nor_a_target_archived_under_a_run() -> None:
    campaign = make_campaign()
    target = campaign.target
    run = make_run(campaign)
    with pytest.raises(Conflict, match=f"Run {run.pk}"):
        archive_target(target)
    with pytest.raises(Conflict, match="address"):
        update_target(target, target_input(base_url="http://127.0.0.1:9/v1"))
    assert update_target(target, target_input(name="renamed")).name == "renamed"
    Run.objects.end(run.pk, RunState.CANCELLED, "stopped")
    archive_target(target)
    target.refresh_from_db()
    assert target.archived_at is not None


@pytest.mark.django_db(transaction=True)
def test_two_who_take_a_name_at_once_both_hear_it_plainly() -> None:
    user = make_user()
    start = threading.Barrier(4)
    outcomes: list[str] = []

    def create() -> None:
        start.wait()
        try:
            create_target(user, target_input())
            outcomes.append("made")
        except InvalidInput as error:
            outcomes.append(error.fields["name"][0][:8])
        finally:
            connection.close()

    threads = [threading.Thread(target=create) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["is taken", "is taken", "is taken", "made"]
    assert Target.objects.count() == 1
