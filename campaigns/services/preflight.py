"""Looks at a target before load is put on it: can it be reached, does it let us in, does it serve this model, does it
stream, and what is it? Decides which answers are good enough and what to do about the others; sends nothing itself.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

from django.utils import timezone
from django.utils.text import capfirst

from campaigns.models import Target
from campaigns.services.address import TargetAddress, address_of
from campaigns.services.conduct import storable
from campaigns.services.probe_engine import (
    EngineSeen,
    MetricsSeen,
    is_simulated,
    look_at_engine,
    look_at_metrics,
    model_names,
)
from campaigns.services.probe_http import LIMITS, NoAnswer, Reply, get, open_client
from campaigns.services.probe_stream import ASKED_TOKENS, HINTS, StreamSeen, try_stream
from campaigns.services.redaction import Redactor
from campaigns.services.waiting import why_target_waits
from workers.loadgen.endpoint import without_query

__all__ = [
    "Check",
    "PreflightReport",
    "PreflightStopped",
    "TargetAddress",
    "address_of",
    "preflight",
    "preflight_target",
]

NAMES = ("reachable", "authorised", "model", "streams", "usage", "length", "metrics", "engine")
REQUIRED = frozenset({"reachable", "authorised", "model", "streams"})
STOP_POLL_S = 0.2
MODELS_SHOWN = 10


class PreflightStopped(Exception):
    """`should_stop` said so."""


@dataclass(frozen=True, slots=True)
class Check:
    """A run cannot start while a `required` check is not ok. `hint`: what to do; empty when there is nothing to do."""

    name: str
    ok: bool
    required: bool
    detail: str
    hint: str


@dataclass(frozen=True, slots=True)
class PreflightReport:
    """`detected`: {engine, version, model, models, max_model_len, url, metrics_url, token_source, unsupported_fields,
    first_output_ms}, null where not known. `unsupported_fields` must be left out of the run's requests."""

    ok: bool
    checks: tuple[Check, ...]
    detected: dict[str, Any]
    simulated: bool

    def as_dict(self) -> dict[str, Any]:
        return {
            "ok": self.ok,
            "checks": [asdict(check) for check in self.checks],
            "detected": self.detected,
            "simulated": self.simulated,
        }


async def preflight(address: TargetAddress, should_stop: Callable[[], bool] | None = None) -> PreflightReport:
    """Every request keeps to `LIMITS`. `should_stop` is asked several times a second on the event loop, so it must be
    quick and leave the database alone. Raises PreflightStopped within a second after it first said True."""
    work = asyncio.create_task(_look(address))
    try:
        while not (await asyncio.wait({work}, timeout=STOP_POLL_S))[0]:
            if should_stop is not None and should_stop():
                raise PreflightStopped("the preflight was stopped")
        return work.result()
    finally:
        work.cancel()
        with contextlib.suppress(asyncio.CancelledError, Exception):
            await work


def preflight_target(target: Target) -> PreflightReport:
    """Looks at the target and keeps the report with it."""
    report = asyncio.run(preflight(address_of(target)))
    report = replace(report, checks=(*report.checks, _worker_check(target)))
    Target.objects.filter(pk=target.pk).update(preflight={**report.as_dict(), "at": timezone.now().isoformat()})
    return report


def _worker_check(target: Target) -> Check:
    """A run on a target that nobody serves would wait, so this warns; a worker may be started later."""
    problem = why_target_waits(target)
    if problem is None:
        return Check("worker", True, False, "A worker serves the target's queue.", "")
    what, _, hint = problem.partition("; ")
    return Check("worker", False, False, f"{capfirst(what)}, so a run would wait.", f"{capfirst(hint)}.")


async def _look(address: TargetAddress) -> PreflightReport:
    findings = _Findings(address.redactor())
    async with open_client(address.verify_tls) as client:
        try:
            models = await get(client, address.models_url, LIMITS.models_s, address.auth_headers())
        except NoAnswer as error:
            findings.add("reachable", False, f"GET {address.models_url}: {error.detail}", error.hint)
            return findings.report(address)
        stream = await try_stream(client, address)
        metrics = await look_at_metrics(client, address)
        engine = await look_at_engine(client, address, models, metrics)
    _judge_way(findings, models, stream)
    _judge_model(findings, address, models, stream)
    _judge_stream(findings, stream)
    findings.add("metrics", metrics.ok, metrics.detail, metrics.hint)
    _judge_engine(findings, engine)
    return findings.report(address, models, stream, metrics, engine)


class _Findings:
    """The checks so far. Everything that a server said passes through here, is stripped of secrets, and can be kept."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._checks: dict[str, Check] = {}

    def add(self, name: str, ok: bool, detail: str, hint: str = "") -> None:
        text = self._text
        self._checks[name] = Check(name, ok, name in REQUIRED, text(detail), "" if ok else text(hint))

    def _text(self, said: str) -> str:
        return str(storable(self._redactor.text(said)))

    def report(
        self,
        address: TargetAddress,
        models: Reply | None = None,
        stream: StreamSeen | None = None,
        metrics: MetricsSeen | None = None,
        engine: EngineSeen | None = None,
    ) -> PreflightReport:
        for name in NAMES:
            if name not in self._checks:
                self.add(name, False, "Not tried, since an earlier check failed.", "See the checks above.")
        checks = tuple(self._checks[name] for name in NAMES)
        text = self._text
        detected = {
            "engine": engine.name if engine else None,
            "version": text(engine.version) if engine and engine.version else None,
            "model": address.model,
            "models": [text(name) for name in (model_names(models) or [])[:MODELS_SHOWN]] if models else None,
            "max_model_len": engine.max_model_len if engine else None,
            "url": address.request_url,
            "metrics_url": metrics.url if metrics else None,
            "token_source": stream.token_source if stream else None,
            "unsupported_fields": list(stream.unsupported_fields) if stream else [],
            "first_output_ms": stream.first_output_ms if stream else None,
        }
        simulated = models is not None and metrics is not None and is_simulated(models, metrics)
        return PreflightReport(all(check.ok for check in checks if check.required), checks, detected, simulated)


def _judge_way(findings: _Findings, models: Reply, stream: StreamSeen) -> None:
    """Reachable and authorised: what both the list of models and the streamed request were answered."""
    for url, status, error in (
        (models.url, models.status, f"redirected to {without_query(models.headers.get('location', ''))}"),
        (stream.url, stream.status, stream.error),
    ):
        if status is not None and 300 <= status < 400:
            findings.add(
                "reachable",
                False,
                f"{url}: {error}",
                "Give the target its final address: Brimline follows no redirect, so that a key stays where it is.",
            )
            return
    findings.add("reachable", True, f"GET {models.url} answered {models.status}")
    for url, status, error in ((stream.url, stream.status, stream.error), (models.url, models.status, models.error)):
        if status in {401, 403}:
            findings.add("authorised", False, f"{url}: {error}", HINTS[status])
            return
    findings.add("authorised", True, "the server let the request in")


def _judge_model(findings: _Findings, address: TargetAddress, models: Reply, stream: StreamSeen) -> None:
    names = model_names(models)
    served = ", ".join((names or [])[:MODELS_SHOWN]) + (", …" if names and len(names) > MODELS_SHOWN else "")
    if names and address.model not in names:
        findings.add(
            "model", False, f"the server does not list the model {address.model}", f"It serves: {served}. Choose one."
        )
    elif stream.status == 404 and address.model in stream.error:
        findings.add("model", False, stream.error, "Correct the model's name.")
    elif names:
        findings.add("model", True, f"the server lists {address.model}")
    elif stream.ok:
        findings.add("model", True, f"the server has no list of models, and answered for {address.model}")
    else:
        findings.add(
            "model",
            False,
            f"the server has no list of models ({models.url} answered {models.status}) and the request failed",
            "See the check of the stream.",
        )


def _judge_stream(findings: _Findings, seen: StreamSeen) -> None:
    if not seen.ok:
        findings.add("streams", False, f"POST {seen.url}: {seen.error}", seen.hint)
        return
    findings.add(
        "streams",
        True,
        f"POST {seen.url}: {seen.output_events} output events, the first after {seen.first_output_ms:.0f} ms",
    )
    counted = seen.token_source == "usage"
    findings.add(
        "usage",
        counted,
        f"the stream says how many tokens it holds ({seen.output_tokens})" if counted else "the stream has no usage",
        "Output tokens will be counted by events, which is too few where one event holds several tokens. Let the "
        "server honour stream_options.include_usage.",
    )
    _judge_length(findings, seen)


def _judge_length(findings: _Findings, seen: StreamSeen) -> None:
    detail = f"asked for {ASKED_TOKENS} tokens and got {seen.output_tokens}"
    if seen.token_source == "events":
        detail += " events"
    if seen.finish_reason:
        detail += f" (finish reason {seen.finish_reason})"
    if "ignore_eos" in seen.unsupported_fields:
        findings.add(
            "length",
            False,
            f"the server refuses the field ignore_eos; {detail} without it",
            "It will be left out. Answers may be shorter than the mix asks for; each stage says how long they were.",
        )
    else:
        findings.add(
            "length",
            # Events may hold several tokens each: there the finish reason tells.
            seen.output_tokens == ASKED_TOKENS or (seen.token_source == "events" and seen.finish_reason == "length"),
            detail,
            "The server does not honour a fixed length (max_tokens with ignore_eos), so stages may differ in length; "
            "each says how long its answers were.",
        )


def _judge_engine(findings: _Findings, engine: EngineSeen) -> None:
    if engine.name is None:
        findings.add(
            "engine",
            False,
            "the engine is not known to Brimline",
            "Load can be measured all the same; what the engine's metrics would explain stays open.",
        )
        return
    limit = f", context of {engine.max_model_len} tokens" if engine.max_model_len else ""
    findings.add("engine", True, f"{engine.name} {engine.version or '(version not stated)'}{limit}")
