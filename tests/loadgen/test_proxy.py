"""Which proxy an address gets."""

from __future__ import annotations

import pytest

from workers.loadgen.plan import PlanError
from workers.loadgen.proxy import find_proxy, proxy_secrets

HTTP = "http://model.example.com:8000/v1/chat/completions"
HTTPS = "https://model.example.com/v1/chat/completions"


@pytest.mark.parametrize(
    ("environment", "url", "proxy"),
    [
        ({}, HTTP, None),
        ({"HTTP_PROXY": "http://a:1"}, HTTP, "http://a:1"),
        ({"HTTP_PROXY": "http://a:1"}, HTTPS, None),
        ({"https_proxy": "https://u:p@a:1"}, HTTPS, "https://u:p@a:1"),
        ({"http_proxy": "a:1", "HTTP_PROXY": "http://b:1"}, HTTP, "http://a:1"),
        ({"http_proxy": "", "HTTP_PROXY": "http://b:1"}, HTTP, None),
        ({"ALL_PROXY": "http://b:1", "http_proxy": "http://a:1"}, HTTP, "http://a:1"),
        ({"ALL_PROXY": "http://b:1", "http_proxy": "http://a:1"}, HTTPS, "http://b:1"),
    ],
)
def test_the_environment_names_a_proxy_by_scheme(environment: dict[str, str], url: str, proxy: str | None) -> None:
    assert find_proxy("environment", url, environment) == proxy


@pytest.mark.parametrize(
    ("host", "no_proxy", "excepted"),
    [
        ("model.example.com", "*", True),
        ("model.example.com", "example.com", True),
        ("model.example.com", "other, .example.com ", True),
        ("model.example.com", "*.example.com", True),
        ("model.example.com", "MODEL.example.com:8000", True),
        ("model.example.com", "model.example.com:80", False),
        ("model.example.com", "ample.com", False),
        ("model.example.com", "10.0.0.0/8", False),
        ("model.example.com", ",", False),
        ("localhost", "localhost", True),
        ("10.1.2.3", "10.0.0.0/8", True),
        ("10.1.2.3", "10.1.2.3", True),
        ("11.1.2.3", "10.0.0.0/8,11.1.2.4", False),
        ("[::1]", "::1", True),
        ("[::1]", "[::1]", True),
    ],
)
def test_no_proxy_excepts_hosts_domains_and_networks(host: str, no_proxy: str, excepted: bool) -> None:
    environment = {"http_proxy": "http://a:1", "NO_PROXY": no_proxy}
    assert (find_proxy("environment", f"http://{host}:8000/v1", environment) is None) == excepted


def test_a_given_proxy_holds_whatever_the_environment_says() -> None:
    assert find_proxy("http://a:1", HTTP, {"http_proxy": "http://b:1", "no_proxy": "*"}) == "http://a:1"


@pytest.mark.parametrize(
    ("setting", "url", "words"),
    [
        ("http://u:secret@a:port", HTTP, "proxy: must be a URL like"),
        ("http://u:secret@[::z]:1", HTTP, "proxy: must be a URL like"),
        ("environment", HTTP, "proxy: the environment's proxy must be a URL like"),
        ("http://u:secret@a:1", "https://[::1]/v1", "proxy: cannot reach an IPv6 address"),
    ],
)
def test_a_proxy_that_cannot_be_used_is_a_clear_error(setting: str, url: str, words: str) -> None:
    with pytest.raises(PlanError, match=words) as caught:
        find_proxy(setting, url, {"ALL_PROXY": "socks5://u:secret@a:1080"})
    assert "secret" not in str(caught.value)


def test_a_proxys_secrets_are_every_form_of_its_password() -> None:
    assert proxy_secrets("http://u:a%20b@h:1") == {"a%20b", "a b", "dTphIGI="}
    assert proxy_secrets("http://h:1") == set()
