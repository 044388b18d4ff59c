"""The OpenAPI document is valid, complete and true of what the API answers."""

from __future__ import annotations

from typing import Any

import pytest
from jsonschema import Draft202012Validator

from campaigns.api import examples, schemas
from campaigns.api.urls import INPUTS
from campaigns.models import Scope, StageKind
from campaigns.services.finish import analyse_run
from campaigns.services.mixes import describe_mix
from campaigns.services.plans import describe_campaign
from campaigns.services.runs import describe_run
from campaigns.services.targets import describe_target
from tests.campaigns.api.calls import CALLS, Call
from tests.campaigns.api.program import BASE, Program, make_campaign, make_run, make_stage
from tests.campaigns.services.builders import make_mix, make_target

pytestmark = pytest.mark.django_db

EXPECTED = {
    "get /targets", "post /targets", "get /targets/{target_id}", "patch /targets/{target_id}",
    "delete /targets/{target_id}", "post /targets/{target_id}/preflight",
    "post /targets/{target_id}/unarchive",
    "get /mixes", "post /mixes", "get /mixes/{mix_id}", "patch /mixes/{mix_id}", "delete /mixes/{mix_id}",
    "post /mixes/{mix_id}/unarchive",
    "get /campaigns", "post /campaigns", "get /campaigns/{campaign_id}", "patch /campaigns/{campaign_id}",
    "post /campaigns/{campaign_id}/runs",
    "get /runs", "get /runs/{run_id}", "get /runs/{run_id}/results", "get /runs/{run_id}/events",
    "post /runs/{run_id}/cancel", "post /runs/{run_id}/resume", "get /runs/{run_id}/requests",
}  # fmt: skip


@pytest.fixture
def document() -> dict[str, Any]:
    # As a program reads it: without a login, over HTTP.
    response = Program(None).get("/openapi.json")
    assert response.status_code == 200
    body: dict[str, Any] = response.json()
    return body


def resolve(document: dict[str, Any], schema: dict[str, Any]) -> Draft202012Validator:
    return Draft202012Validator({**schema, "components": document["components"]})


def answer_schema(document: dict[str, Any], call: Call, status: int) -> dict[str, Any]:
    response = document["paths"][call.path][call.method]["responses"][str(status)]
    schema: dict[str, Any] = response["content"]["application/json"]["schema"]
    return schema


def test_it_names_the_calls_of_the_contract(document: dict[str, Any]) -> None:
    assert {str(call).replace(BASE, "") for call in CALLS} == EXPECTED
    operations = [call for calls in document["paths"].values() for call in calls.values()]
    assert len({call["operationId"] for call in operations}) == len(operations)


def test_its_schemas_are_valid_and_its_references_lead_somewhere(document: dict[str, Any]) -> None:
    assert document["openapi"].startswith("3.1")
    schemas_by_name = document["components"]["schemas"]
    for schema in schemas_by_name.values():
        Draft202012Validator.check_schema(schema)

    def references(part: Any) -> list[str]:
        if isinstance(part, dict):
            own = [part["$ref"]] if isinstance(part.get("$ref"), str) else []
            return own + [found for value in part.values() for found in references(value)]
        return [found for value in part for found in references(value)] if isinstance(part, list) else []

    found = references(document)
    assert found
    for reference in found:
        prefix, name = reference.rsplit("/", 1)
        assert prefix == "#/components/schemas" and name in schemas_by_name


def test_every_call_says_how_to_log_in_and_how_it_fails(document: dict[str, Any]) -> None:
    schemes = document["components"]["securitySchemes"]
    assert (schemes["Token"]["type"], schemes["Token"]["scheme"]) == ("http", "bearer")
    for call in CALLS:
        operation = document["paths"][call.path][call.method]
        assert {"Token": []} in operation["security"]
        assert {"401", "403"} <= set(operation["responses"])
        assert ("404" in operation["responses"]) is ("{" in call.path)
        for status, response in operation["responses"].items():
            if int(status) >= 400:
                assert response["content"]["application/json"]["schema"] == {"$ref": "#/components/schemas/Error"}


def test_it_names_the_parameters_as_they_are_sent(document: dict[str, Any]) -> None:
    def names(method: str, path: str) -> set[str]:
        parameters = document["paths"][BASE + path][method]["parameters"]
        return {f"{one['in']} {one['name']}" for one in parameters} - {"path run_id", "path campaign_id"}

    assert names("get", "/runs") == {
        f"query {name}" for name in ("limit", "cursor", "target", "mix", "campaign", "state", "label")
    }
    assert names("get", "/runs/{run_id}/events") == {"query after", "query limit"}
    assert names("get", "/runs/{run_id}/requests") == {"query format"}
    assert names("post", "/campaigns/{campaign_id}/runs") == {"header Idempotency-Key"}


def test_every_documented_body_fits_its_schema(document: dict[str, Any]) -> None:
    shown = 0
    for call in CALLS:
        if (body := document["paths"][call.path][call.method].get("requestBody")) is None:
            continue
        content = body["content"]["application/json"]
        for example in content["examples"].values():
            resolve(document, content["schema"]).validate(example["value"])
            shown += 1
    assert shown == 7
    assert not resolve(document, INPUTS["TargetInput"]).is_valid({**examples.TARGET, "unknown": 1})
    assert not resolve(document, INPUTS["TargetInput"]).is_valid(examples.TARGET_CHANGES)


def test_answers_are_as_documented(document: dict[str, Any]) -> None:
    campaign = make_campaign()
    waiting = make_run(campaign)
    program = Program(Scope.ADMIN)
    pks = {"targets": campaign.target_id, "mixes": campaign.mix_id, "campaigns": campaign.pk, "runs": waiting.pk}
    sent: dict[str, Any] = {
        "post /targets": examples.TARGET,
        "patch /targets/{target_id}": examples.TARGET_CHANGES,
        "post /mixes": examples.MIX,
        "patch /mixes/{mix_id}": examples.MIX_CHANGES,
        "post /campaigns": {**examples.CAMPAIGN, "target": campaign.target_id, "mix": campaign.mix_id},
        "patch /campaigns/{campaign_id}": examples.CAMPAIGN_CHANGES,
        "post /campaigns/{campaign_id}/runs": examples.LAUNCH,
    }
    seen = set()
    for call in sorted(CALLS, key=lambda call: call.method == "delete"):
        family = call.path.removeprefix(f"{BASE}/").split("/")[0]
        response = program.send(call.method, call.address(pks[family]), sent.get(str(call).replace(BASE, "")))
        seen.add(response.status_code)
        documented = document["paths"][call.path][call.method]["responses"]
        assert str(response.status_code) in documented, (call, response.content)
        if response["Content-Type"].startswith("application/json"):
            resolve(document, answer_schema(document, call, response.status_code)).validate(response.json())
    assert seen >= {200, 201, 202, 409}


def test_the_results_of_an_analysed_run_are_as_documented(document: dict[str, Any]) -> None:
    run = make_run()
    for index, (users, kind) in enumerate(
        [(1, "baseline"), (1, "ladder"), (2, "ladder"), (4, "ladder"), (1, "closing")]
    ):
        make_stage(run, index, users, requests=120 * users, kind=StageKind(kind))
    assert analyse_run(run.pk)
    call = next(call for call in CALLS if call.path.endswith("/results"))
    results = Program(Scope.READ).get(f"/runs/{run.pk}/results").json()
    resolve(document, answer_schema(document, call, 200)).validate(results)
    assert results["max_concurrency"]["value"] == 4, results["max_concurrency"]
    # Every figure that is given is documented, but for those of the load generator.
    assert set(results) == set(schemas.Results.model_fields)
    assert set(results["run"]) == set(schemas.RunSummary.model_fields)
    assert set(results["max_concurrency"]) == set(schemas.LoadLine.model_fields)
    assert set(results["baseline"]["opening"]) == set(schemas.StageFindings.model_fields)
    assert set(results["stages"][0]["checks"][0]) == set(schemas.StageCheck.model_fields)
    assert set(results["stages"][1]["degradation"]["ttft_ms"]["p50"]) == set(schemas.Degradation.model_fields)


def test_no_field_of_a_description_is_lost_on_the_way_out() -> None:
    campaign = make_campaign()
    run = describe_run(make_run(campaign))
    for described, schema in (
        (describe_target(make_target()), schemas.Target),
        (describe_mix(make_mix()), schemas.Mix),
        (describe_campaign(campaign), schemas.Campaign),
        (run, schemas.Run),
        (run["progress"], schemas.Progress),
    ):
        assert set(described) == set(schema.model_fields)
