"""Makes a stage's parts out of a plan and this process's surroundings: key, prompt files, descriptors, transport."""

from __future__ import annotations

import resource
from collections.abc import Mapping
from pathlib import Path

from workers.loadgen.checking import Problem
from workers.loadgen.choose_transport import choose_transport
from workers.loadgen.plan import ClosedLoad, Plan, PlanError
from workers.loadgen.prompt_files import read_prompt_files
from workers.loadgen.report import PartFacts
from workers.loadgen.stage import Share, StagePart
from workers.loadgen.summary import Window
from workers.loadgen.tokens import Tokens
from workers.loadgen.traces import read_arrivals

# Beside the connections: standard streams, libraries, the log, DNS sockets.
_DESCRIPTORS_SPARE = 64
# A shorter header value is a word of the protocol and may stand in an error; hiding it would hide the error.
_SECRET_LENGTH_MIN = 6


def make_part(plan: Plan, directory: Path, share: Share, environment: Mapping[str, str]) -> StagePart:
    """`directory` is where relative names of files start. Raises PlanError."""
    headers = dict(plan.headers)
    if plan.api_key_env is not None:
        headers["Authorization"] = f"Bearer {_api_key(plan.api_key_env, environment)}"
    tokens = None if plan.tokenizer is None else Tokens(directory / plan.tokenizer)
    prompts = read_prompt_files(plan, directory, None if tokens is None else tokens.count)
    trace_s = read_arrivals(plan, directory)
    in_flight = plan.load.concurrency if isinstance(plan.load, ClosedLoad) else plan.load.max_outstanding
    _raise_descriptor_limit(share.of(in_flight) + _DESCRIPTORS_SPARE)
    transport, secrets = choose_transport(plan, headers, directory, environment)
    secrets |= {value.removeprefix("Bearer ") for value in headers.values()}
    return StagePart(plan, transport, prompts, Redactor(secrets), share, tokens, trace_s)


def facts_of(part: StagePart, window: Window, ended_s: float) -> PartFacts:
    calibrator = part.calibrator
    return PartFacts(
        window=window,
        ended_s=ended_s,
        cancelled=part.cancelled,
        cpu_share=part.gauge.cpu_share,
        lags_ns=list(part.gauge.lags_ns),
        calibration=calibrator.model if calibrator.known or calibrator.requests else None,
        learned_from=calibrator.requests,
        capped=part.capped,
        transport=part.transport,
        receiving=part.receiving,
        gaps=part.gaps,
    )


class Redactor:
    """Takes secrets out of a text."""

    def __init__(self, secrets: set[str]) -> None:
        self._secrets = sorted((one for one in secrets if len(one) >= _SECRET_LENGTH_MIN), key=len, reverse=True)

    def __call__(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, "[redacted]")
        return text


def _api_key(name: str, environment: Mapping[str, str]) -> str:
    key = environment.get(name, "")
    if not key:
        raise PlanError([Problem("api_key_env", f"the environment variable {name} is not set; set it to the API key")])
    if not key.isascii() or not key.isprintable():
        raise PlanError([Problem("api_key_env", f"the environment variable {name} must hold printable ASCII only")])
    return key


def _raise_descriptor_limit(needed: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed + _used_descriptors():
        return
    needed += _used_descriptors()
    if hard != resource.RLIM_INFINITY and hard < needed:
        message = f"needs {needed} open files, but this system allows {hard}; raise it or use more processes"
        raise PlanError([Problem("load", message)])
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


def _used_descriptors() -> int:
    try:
        return sum(1 for _ in Path("/proc/self/fd").iterdir())
    except OSError:
        return 0
