"""No data is a dash or nothing, never 0 and never a broken page, wherever in the results it is missing."""

from __future__ import annotations

from typing import Any

import pytest
from django.template import Context, Template
from django.test import Client

from campaigns.models import RunResult
from tests.campaigns.builders import LADDER, make_campaign, make_run, make_user


@pytest.mark.parametrize("name", ["num", "pct", "share", "signed_pct", "duration"])
@pytest.mark.parametrize("place", ["none", "part.missing", "none.deeper"])
def test_a_filter_shows_a_dash_for_what_is_not_there(name: str, place: str) -> None:
    template = Template(f"{{% load brimline %}}{{{{ {place}|{name} }}}}|{{{{ {place}|exact }}}}")
    assert template.render(Context({"none": None, "part": {}})) == "—|"


def without(value: Any, key: str) -> Any:
    """`value` with every `key` in it set to null."""
    if isinstance(value, dict):
        return {name: None if name == key else without(part, key) for name, part in value.items()}
    return [without(part, key) for part in value] if isinstance(value, list) else value


@pytest.mark.django_db
@pytest.mark.parametrize(
    "key",
    [
        "input_tokens",
        "output_tokens",
        "ttft_ms",
        "tpot_ms",
        "itl_ms",
        "e2e_ms",
        "p50",
        "p99",
        "in_flight_mean",
        "output_tokens_per_s",
        "requests_per_s",
        "scaling",
        "drift_pct",
        "low",
        "high",
        "limited_by",
        "calibration",
        "client",
        "kernel_stamps",
        "receive_delay_ms",
        "lateness_ms",
        "token_source",
    ],
)
def test_the_results_page_stands_whatever_a_stage_has_no_data_for(client: Client, key: str) -> None:
    run = make_run(make_campaign(), stages=LADDER)
    result = RunResult.objects.get(run=run)
    changed = without(result.document, key)
    RunResult.objects.filter(pk=result.pk).update(document=changed)
    client.force_login(make_user("ann"))
    answer = client.get(f"/runs/{run.pk}/")
    assert answer.status_code == 200
    assert ">nan<" not in answer.content.decode().lower()


@pytest.mark.django_db
@pytest.mark.parametrize(("stamps", "words"), [(True, "kernel"), (False, "event loop"), (None, "—")])
def test_the_results_page_says_where_times_come_from(client: Client, stamps: bool | None, words: str) -> None:
    run = make_run(make_campaign(), stages=LADDER)
    result = RunResult.objects.get(run=run)
    for stage in result.document["stages"]:
        stage["client"] = {"kernel_stamps": stamps, "cpu_share": 0.123, "receive_delay_ms": {"p99": 4.56}}
    result.save()
    client.force_login(make_user("ann"))
    page = client.get(f"/runs/{run.pk}/").content.decode()
    table = page.partition('id="client-table"')[2].partition("</table>")[0]
    assert f"<td>{words}</td>" in table
    assert "12.3%" in table and "4.56" in table
