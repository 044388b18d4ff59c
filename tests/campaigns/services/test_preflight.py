"""Preflight against real HTTP servers: what each kind of deployment is told, and that no secret comes back."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import ssl
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import trustme
from django.utils import timezone

from campaigns.models.secret import Secret
from campaigns.services import preflight as preflight_module
from campaigns.services import probe_engine, probe_http, probe_stream
from campaigns.services.preflight import (
    NAMES,
    REQUIRED,
    Check,
    PreflightReport,
    PreflightStopped,
    TargetAddress,
    address_of,
    preflight,
    preflight_target,
)
from tests.campaigns.services.builders import make_target
from tests.campaigns.services.llm_server import (
    DONE,
    Answer,
    Request,
    Server,
    chat,
    event,
    good,
    models,
    serving,
    unused_port,
    usage,
)
from tests.engine import llama
from workers import heartbeat

KEY = "sk-TEST-123"


def look(url: str, **changes: Any) -> PreflightReport:
    return asyncio.run(preflight(replace(TargetAddress(base_url=url, model="m"), **changes)))


def look_at(answers: dict[str, Answer], name: str = "test/1", **changes: Any) -> PreflightReport:
    with serving(answers, name=name) as server:
        return look(server.url, **changes)


def page_of(document: str | dict[str, Any]) -> Answer:
    return lambda request: request.answer(200, document)


def check(report: PreflightReport, name: str) -> Check:
    return next(one for one in report.checks if one.name == name)


def failed(report: PreflightReport) -> list[str]:
    return [one.name for one in report.checks if not one.ok]


def test_a_good_server_passes_everything() -> None:
    report = look_at(good())
    assert report.ok and failed(report) == []
    assert [one.name for one in report.checks] == list(NAMES)
    assert {one.name for one in report.checks if one.required} == REQUIRED
    assert not any(one.hint for one in report.checks)
    assert report.detected["engine"] == "vLLM"
    assert report.detected["version"] == "0.9.1"
    assert report.detected["max_model_len"] == 4096
    assert report.detected["token_source"] == "usage"
    assert report.detected["unsupported_fields"] == []
    assert not report.simulated
    assert json.loads(json.dumps(report.as_dict()))["checks"][0]["name"] == "reachable"


def test_the_probe_is_the_request_that_a_run_would_send() -> None:
    with serving(good()) as server:
        look(server.url + "/v1/chat/completions", api_key=Secret(KEY), headers={"X-Team": "blue"})
    sent = {line: (headers, body) for line, headers, body in server.seen}
    headers, body = sent["POST /v1/chat/completions"]
    assert headers["Authorization"] == f"Bearer {KEY}" and headers["X-Team"] == "blue"
    assert (body["model"], body["stream"], body["stream_options"]) == ("m", True, {"include_usage": True})
    assert 8 <= body["max_tokens"] <= 16


def test_a_completions_server_is_asked_for_completions() -> None:
    def complete(request: Request) -> None:
        assert isinstance(request.body["prompt"], str)
        parts = [f"data: {json.dumps({'choices': [{'index': 0, 'text': 'w '}]})}\n\n"] * request.body["max_tokens"]
        request.stream(*parts, usage(16), DONE)

    report = look_at(good() | {"POST /v1/completions": complete}, protocol="openai-completions")
    assert report.ok
    assert report.detected["url"].endswith("/v1/completions")


# Not reached.


def test_nothing_listens() -> None:
    report = look(f"http://127.0.0.1:{unused_port()}/v1")
    assert not report.ok
    assert "refused" in check(report, "reachable").detail and check(report, "reachable").hint
    assert failed(report) == list(NAMES)
    assert "Not tried" in check(report, "streams").detail


def test_an_unknown_name() -> None:
    report = look("http://no-such-host.invalid/v1")
    assert "not known (DNS)" in check(report, "reachable").detail


def test_a_certificate_that_is_not_trusted_and_one_that_need_not_be() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    with serving(good(), tls=context) as server:
        report = look(server.url)
        assert "certificate not trusted" in check(report, "reachable").detail
        assert "certificate checks" in check(report, "reachable").hint
        assert look(server.url, verify_tls=False).ok


def test_the_wrong_scheme_each_way() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    with serving(good(), tls=context) as server:
        assert "https://" in check(look(server.url.replace("https", "http")), "reachable").hint
    with serving(good()) as server:
        assert "http://" in check(look(server.url.replace("http", "https")), "reachable").hint


def test_a_server_that_closes_without_a_word() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=lambda: listener.accept()[0].close())
        thread.start()
        report = look(f"http://127.0.0.1:{listener.getsockname()[1]}/v1")
        thread.join()
    assert failed(report)[0] == "reachable"


def test_a_redirect_is_not_followed() -> None:
    with serving(good()) as other:
        to_other = {
            line: lambda request: request.answer(307, Location=other.url + request.path + "?token=tok-456")
            for line in good()
        }
        report = look_at(to_other, api_key=Secret(KEY))
    reachable = check(report, "reachable")
    assert not reachable.ok and other.url in reachable.detail and "tok-456" not in reachable.detail
    assert "final address" in reachable.hint
    assert other.seen == []


@pytest.fixture
def short_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = probe_http.Limits(connect_s=2, models_s=0.3, page_s=0.3, first_byte_s=0.3, stream_s=0.6)
    for user in (probe_http, preflight_module, probe_stream, probe_engine):
        monkeypatch.setattr(user, "LIMITS", limits)


@pytest.mark.usefixtures("short_limits")
def test_a_server_that_never_answers_is_given_up() -> None:
    report = look_at(dict.fromkeys(good(), Request.hang))
    assert "no whole answer within 0.3 s" in check(report, "reachable").detail


@pytest.mark.usefixtures("short_limits")
def test_a_stream_that_falls_silent_is_given_up() -> None:
    def silent(request: Request) -> None:
        request.stream(event({"content": "one "}))
        request.hang()

    report = look_at(good(completions=silent))
    assert "broke off after 1 output events" in check(report, "streams").detail
    assert check(report, "reachable").ok and not report.ok


@pytest.mark.usefixtures("short_limits")
def test_a_stream_without_an_end_is_given_up() -> None:
    def endless(request: Request) -> None:
        request.stream()
        with contextlib.suppress(OSError):
            while not request.closing.wait(0.05):
                request.handler.wfile.write(event({"content": "one "}).encode())

    detail = check(look_at(good(completions=endless)), "streams").detail
    assert "broke off" in detail and "no whole answer within 0.6 s" in detail


# Not let in.


@pytest.mark.parametrize("status", [401, 403])
def test_a_wrong_key_is_reported_without_the_key(status: int) -> None:
    def deny(request: Request) -> None:
        key = request.handler.headers["Authorization"]
        request.answer(status, {"error": {"message": f"Key {key} / {json.dumps(key)} is not valid"}})

    report = look_at(good(models=deny, completions=deny), api_key=Secret(KEY))
    authorised = check(report, "authorised")
    assert not authorised.ok and "is not valid" in authorised.detail and "key" in authorised.hint
    assert check(report, "reachable").ok
    assert KEY not in json.dumps(report.as_dict(), ensure_ascii=False)


def test_a_list_of_models_that_is_open_says_nothing_about_the_key() -> None:
    report = look_at(good(completions=lambda request: request.answer(401, {"error": "no"})))
    assert not check(report, "authorised").ok


def test_no_secret_of_a_header_comes_back() -> None:
    def echo(request: Request) -> None:
        request.answer(500, json.dumps(dict(request.handler.headers)))

    secrets = {"X-Auth-Token": "tok-456", "Cookie": "s=cookie-789; t=1"}
    report = look_at(good(completions=echo), headers=secrets, api_key=Secret(KEY))
    text = json.dumps(report.as_dict(), ensure_ascii=False) + repr(TargetAddress("http://h", "m", headers=secrets))
    assert not any(secret in text for secret in (KEY, "tok-456", "cookie-789"))


def test_the_key_is_not_sent_to_a_metrics_page_elsewhere() -> None:
    with serving(good()) as other:
        page = other.url + "/metrics"
        assert check(look_at(good(), api_key=Secret(KEY), metrics_urls=(page,)), "metrics").ok
    assert [line for line, _, _ in other.seen] == ["GET /metrics"]
    assert "Authorization" not in other.seen[0][1]


# The model.


def test_a_model_that_is_not_served_names_those_that_are() -> None:
    report = look_at(good(models=models("llama", "qwen")))
    assert not report.ok
    assert "llama, qwen" in check(report, "model").hint


def test_a_server_without_a_list_is_judged_by_the_probe() -> None:
    def unlisted(request: Request) -> None:
        request.answer(404, {"error": {"message": "The model `m` does not exist."}})

    answers = good()
    del answers["GET /v1/models"]
    assert check(look_at(answers), "model").ok
    report = look_at(answers | {"POST /v1/chat/completions": unlisted})
    assert "does not exist" in check(report, "model").detail
    assert not report.ok


# The stream.


@pytest.mark.parametrize(
    ("answer", "word"),
    [
        (lambda request: request.answer(200, {"choices": [{"message": {"content": "Hi"}}]}), "one piece"),
        (lambda request: request.answer(200, {"error": {"message": "KV cache exhausted"}}), "KV cache exhausted"),
        (lambda request: request.stream('data: {"error": "cuda oom"}\n\n', DONE), "cuda oom"),
        (lambda request: request.stream(event({"content": "a"})), "cut short"),
        (lambda request: request.stream(), "empty"),
        (lambda request: request.stream(event({"role": "assistant"}), DONE), "without an answer"),
        (lambda request: request.stream(event({}, "stop"), DONE), "no output"),
        (lambda request: request.answer(200, "<html>hello</html>", "text/html"), "web page"),
        (lambda request: request.answer(404, {"detail": "Not Found"}), "Not Found"),
        (lambda request: request.answer(429, {"error": "slow down"}), "slow down"),
        (lambda request: request.answer(503), "503"),
    ],
)
def test_what_is_no_stream_fails_with_the_reason_and_a_hint(answer: Answer, word: str) -> None:
    report = look_at(good(completions=answer))
    streams = check(report, "streams")
    assert not streams.ok and not report.ok
    assert word in streams.detail and streams.hint
    assert "/v1/chat/completions" in streams.detail


def test_a_stream_without_usage_is_good_enough() -> None:
    report = look_at(good(completions=lambda r: r.stream(*[event({"content": "w "})] * 16, event({}, "length"), DONE)))
    assert report.ok and failed(report) == ["usage"]
    assert "events" in check(report, "usage").hint
    assert report.detected["token_source"] == "events"


def test_events_of_several_tokens_are_not_taken_for_a_short_answer() -> None:
    def some(request: Request) -> None:
        request.stream(*[event({"content": "w w w w"})] * 4, event({}, "length"), DONE)

    assert failed(look_at(good(completions=some))) == ["usage"]


def test_a_server_that_ends_early_is_told_apart() -> None:
    report = look_at(good(completions=lambda r: r.stream(event({"content": "w"}, "stop"), usage(1), DONE)))
    assert report.ok and failed(report) == ["length"]
    assert "got 1 (finish reason stop)" in check(report, "length").detail


@pytest.mark.parametrize(
    "words", ["Unrecognized field: ignore_eos", '{"loc": ["body", "ignore_eos"], "msg": "extra"}', "bad request"]
)
def test_a_field_that_the_server_does_not_know_is_left_out(words: str) -> None:
    def picky(request: Request) -> None:
        if "ignore_eos" in request.body:
            request.answer(400, {"error": {"message": words}})
        else:
            chat(request)

    report = look_at(good(completions=picky))
    assert report.ok and failed(report) == ["length"]
    assert "ignore_eos" in check(report, "length").detail
    assert report.detected["unsupported_fields"] == ["ignore_eos"]


def test_several_unknown_fields_are_found_one_after_the_other() -> None:
    def picky(request: Request) -> None:
        unknown = [name for name in ("stream_options", "ignore_eos") if name in request.body]
        if unknown:
            request.answer(422, {"detail": f"{unknown[0]}: not permitted"})
        else:
            chat(request)

    assert set(look_at(good(completions=picky)).detected["unsupported_fields"]) == {"stream_options", "ignore_eos"}


def test_a_refusal_for_another_reason_is_shown_as_it_is() -> None:
    report = look_at(good(completions=lambda request: request.answer(400, {"error": "model is asleep"})))
    assert "model is asleep" in check(report, "streams").detail
    assert report.detected["unsupported_fields"] == []


# Engine and metrics.


@pytest.mark.parametrize(
    ("metrics", "pages", "engine", "version", "length"),
    [
        (
            "sglang:num_running_reqs 0\n",
            {"/get_server_info": {"version": "0.5", "context_length": 9}},
            "SGLang",
            "0.5",
            9,
        ),
        ("tgi_queue_size 0\n", {"/info": {"version": "3.0", "max_total_tokens": 8}}, "TGI", "3.0", 8),
        (
            "llamacpp:requests_processing 0\n",
            {"/props": {"build_info": "b1-a", "default_generation_settings": {"n_ctx": 512}}},
            "llama.cpp",
            "b1-a",
            512,
        ),
    ],
)
def test_engines_are_known_by_their_metrics_and_pages(
    metrics: str, pages: dict[str, Any], engine: str, version: str, length: int
) -> None:
    answers = good(metrics=lambda request: request.answer(200, metrics), models=models("m"))
    del answers["GET /version"]
    answers |= {f"GET {path}": page_of(document) for path, document in pages.items()}
    report = look_at(answers)
    assert (report.detected["engine"], report.detected["version"]) == (engine, version)
    assert report.detected["max_model_len"] == length
    assert failed(report) == []


def test_a_server_header_names_the_engine_when_metrics_are_off() -> None:
    report = look_at(good(metrics=lambda request: request.answer(501)), name="llama.cpp")
    assert report.ok and failed(report) == ["metrics"]
    assert "--metrics" in check(report, "metrics").hint
    assert report.detected["engine"] == "llama.cpp"


def test_an_unknown_engine_is_no_obstacle() -> None:
    report = look_at({line: how for line, how in good(models=models("m")).items() if "/v1/" in line})
    assert report.ok and failed(report) == ["metrics", "engine"]


@pytest.mark.parametrize(
    ("metrics", "name"),
    [("brimline_simulated 1\nvllm:num_requests_running 0\n", "test/1"), ("", "brimline-simulator/0.1")],
)
def test_a_simulated_engine_is_marked(metrics: str, name: str) -> None:
    assert look_at(good(metrics=lambda request: request.answer(200, metrics)), name=name).simulated


@pytest.mark.parametrize("body", ["[]", "null", '{"data": [1, {"id": 2}, null]}', '{"data": {}}', "\xff", "[" * 5000])
def test_odd_documents_do_not_break_the_look(body: str) -> None:
    odd = good(
        models=lambda r: r.answer(200, body),
        metrics=lambda r: r.answer(200, body),
        version=lambda r: r.answer(200, body),
    )
    assert check(look_at(odd), "streams").ok


@pytest.mark.engine
@pytest.mark.skipif(llama.why_missing() is not None, reason=llama.why_missing() or "")
def test_a_real_engine_passes_everything(tmp_path: Path) -> None:
    with llama.running(tmp_path) as engine:
        report = look(engine.base_url, model=llama.MODEL)
        other = look(engine.base_url, model="other")
    assert failed(report) == []
    assert report.detected["engine"] == "llama.cpp"
    assert report.detected["max_model_len"] == 4096
    assert failed(other) == ["model"] and llama.MODEL in check(other, "model").hint


# Stopping and keeping.


def test_a_stop_is_heard_at_once() -> None:
    asked: list[float] = []

    def should_stop() -> bool:
        asked.append(time.monotonic())
        return len(asked) > 1

    with serving(dict.fromkeys(good(), Request.hang)) as server, pytest.raises(PreflightStopped):
        asyncio.run(preflight(TargetAddress(server.url, "m"), should_stop))
    assert len(asked) == 2


@pytest.mark.django_db
def test_a_report_is_kept_with_its_target() -> None:
    with serving(good()) as server:
        target = make_target(base_url=server.url, api_key=KEY, headers={"X-A": "tok-456"})
        report = preflight_target(target)
    _heard(server)
    target.refresh_from_db()
    assert target.preflight is not None
    assert target.preflight["ok"] is report.ok is True
    assert target.preflight["at"]
    assert KEY not in json.dumps(target.preflight)


@pytest.mark.django_db
def test_a_queue_that_nobody_serves_is_a_warning() -> None:
    with serving(good()) as server:
        target = make_target(base_url=server.url, queue="host.gpu")
        report = preflight_target(target)
        worker = report.checks[-1]
        assert report.ok and (worker.name, worker.ok, worker.required) == ("worker", False, False)
        assert "serves the queue host.gpu" in worker.detail and "-Q host.gpu" in worker.hint
        heartbeat.write("w@host", ["host.gpu"], timezone.now())
        assert preflight_target(target).checks[-1].ok


@pytest.mark.django_db
@pytest.mark.parametrize("broken", ["\udcff", "\ud800", "a\0b"], ids=["lone low", "lone high", "nul"])
def test_a_report_of_what_is_no_valid_text_can_be_kept(broken: str) -> None:
    """JSON's \\uXXXX can name what is no character."""
    said = good(models=models(broken, "m"), version=page_of({"version": f"1{broken}"}))
    refused = page_of({"error": {"message": f"no {broken} here"}})
    for answers in (said, {**said, "POST /v1/chat/completions": refused}):
        with serving(answers) as server:
            target = make_target(name=f"t{server.url}", base_url=server.url)
            report = preflight_target(target)
        target.refresh_from_db()
        assert target.preflight is not None
        assert target.preflight["checks"] == report.as_dict()["checks"]
        json.dumps(report.as_dict(), ensure_ascii=False).encode()


def _heard(server: Server) -> None:
    headers = server.seen[0][1]
    assert (headers["Authorization"], headers["X-A"]) == (f"Bearer {KEY}", "tok-456")


@pytest.mark.django_db
def test_an_address_knows_its_pages() -> None:
    target = make_target(base_url=" HTTP://h:8000/v1/ ")
    address = address_of(target)
    assert address.request_url == "http://h:8000/v1/chat/completions"
    assert address.models_url == "http://h:8000/v1/models"
    assert address.metrics_pages() == ("http://h:8000/metrics",)
    named = make_target(
        name="n", metrics=[{"kind": "nvml"}, {"kind": "engine", "url": "http://h:9/m"}, {"kind": "engine"}]
    )
    assert address_of(named).metrics_pages() == ("http://h:9/m",)
