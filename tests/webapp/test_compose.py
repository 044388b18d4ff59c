"""docker-compose.yml says what architecture and docs promise. It is read here, not run."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from webapp.environment import ROOT

COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES: dict[str, Any] = COMPOSE["services"]
OURS = [name for name, service in SERVICES.items() if service["image"] == "brimline"]


def test_the_product_is_there_and_the_demo_only_when_asked_for() -> None:
    always = {name for name, service in SERVICES.items() if not service.get("profiles")}
    assert always == {"web", "worker", "beat", "postgres", "redis", "migrate"}
    assert SERVICES["engine"]["profiles"] == ["demo"]
    assert "workers.simulator" in SERVICES["engine"]["command"]


@pytest.mark.parametrize("name", OURS)
def test_every_program_of_ours_gets_its_secrets_or_says_which_is_missing(name: str) -> None:
    environment = SERVICES[name]["environment"]
    for secret in ("BRIMLINE_SECRET_KEY", "BRIMLINE_FIELD_KEYS"):
        assert re.fullmatch(rf"\$\{{{secret}:\?.+\}}", environment[secret])
    assert {"DATABASE_URL", "REDIS_URL"} <= environment.keys()


def test_nothing_starts_before_what_it_needs() -> None:
    for name, service in SERVICES.items():
        for needed, how in service.get("depends_on", {}).items():
            assert needed in SERVICES, name
            if how["condition"] == "service_healthy":
                assert "healthcheck" in SERVICES[needed], f"{name} waits for the health of {needed}"
    for name in ("web", "worker", "beat"):
        assert SERVICES[name]["depends_on"]["migrate"]["condition"] == "service_completed_successfully"


def test_data_that_must_last_lies_in_named_volumes() -> None:
    for name in ("postgres", "redis"):
        (volume,) = SERVICES[name]["volumes"]
        assert volume.split(":")[0] in COMPOSE["volumes"]


def test_no_port_is_open_to_other_hosts_by_default() -> None:
    for service in SERVICES.values():
        for port in service.get("ports", []):
            assert "127.0.0.1" in port


def test_every_variable_of_the_environment_is_one_that_the_settings_read() -> None:
    known = (ROOT / "webapp" / "settings.py").read_text()
    for name in SERVICES["web"]["environment"]:
        assert name in known, f"{name} is set but nothing reads it"
