import pytest

from workers.loadgen.endpoint import AddressError, api_root, endpoint_url, metrics_guess, models_url, without_query

CHAT = "openai-chat"


@pytest.mark.parametrize(
    ("typed", "called"),
    [
        ("http://h:8000", "http://h:8000/v1/chat/completions"),
        ("http://h:8000/", "http://h:8000/v1/chat/completions"),
        ("http://h:8000/v1", "http://h:8000/v1/chat/completions"),
        ("http://h:8000/v1/", "http://h:8000/v1/chat/completions"),
        ("http://h:8000/v1/chat/completions", "http://h:8000/v1/chat/completions"),
        ("https://h/api/v3", "https://h/api/v3/chat/completions"),
        ("https://h/v1beta/openai/", "https://h/v1beta/openai/chat/completions"),
        ("http://[fd00::5]:8000/v1", "http://[fd00::5]:8000/v1/chat/completions"),
        ("http://[::1]:8000", "http://[::1]:8000/v1/chat/completions"),
        (" HTTP://H:8000/v1 ", "http://H:8000/v1/chat/completions"),
        ("http://h:8000/v1?key=x", "http://h:8000/v1/chat/completions?key=x"),
        ("https://h/é", "https://h/%C3%A9/chat/completions"),
    ],
)
def test_every_way_to_type_an_address_leads_to_the_endpoint(typed: str, called: str) -> None:
    assert endpoint_url(typed, CHAT) == called


@pytest.mark.parametrize(
    ("typed", "word"),
    [
        ("h:8000", "http://"),
        ("localhost:8000/v1", "http://"),
        ("ftp://h", "http://"),
        ("", "http://"),
        ("http://", "host"),
        ("http:h", "http://"),
        ("http://user:pw@h/v1", "password"),
        ("http://h:99999", "URL"),
        ("http://h:0", "port"),
        ("http://h/a b", "spaces"),
        ("http://h/\r\nX: y", "control"),
        ("http://[::1/v1", "URL"),
        ("http://h/#x", "fragment"),
    ],
)
def test_an_address_that_cannot_work_is_refused_in_words(typed: str, word: str) -> None:
    with pytest.raises(AddressError, match=word) as caught:
        endpoint_url(typed, CHAT)
    assert "pw" not in str(caught.value)


def test_one_address_gives_all_urls_of_a_server() -> None:
    typed = "http://h:8000/v1/chat/completions?key=secret"
    assert api_root(typed) == "http://h:8000/v1"
    assert endpoint_url(typed, "openai-completions") == "http://h:8000/v1/completions?key=secret"
    assert models_url("http://h:8000") == "http://h:8000/v1/models"
    assert metrics_guess(typed) == "http://h:8000/metrics"
    assert without_query(models_url(typed)) == "http://h:8000/v1/models"
