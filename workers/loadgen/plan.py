"""The plan of one stage: what may stand in PLAN.json, as types and rules. Reads no environment and opens no socket."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias
from urllib.parse import urlsplit

import msgspec

from workers.loadgen.checking import Problem, Problems, build, join
from workers.loadgen.endpoint import AddressError, Protocol, endpoint_url
from workers.loadgen.lengths import Length, check_bounds

BLOCK_MAX = 10_000
RATE_MIN_RPS = 1e-6
# What the generator sets itself; a plan that sets it too would measure something else than it says.
OWN_PARAMETERS = frozenset({"model", "messages", "prompt", "max_tokens", "stream", "echo"})
_OWN_HEADERS = frozenset(
    {"content-length", "transfer-encoding", "connection", "expect", "content-type", "accept-encoding", "x-request-id"}
)

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=200, description="text of 1 to 200 characters")]
Count = Annotated[int, msgspec.Meta(ge=1, le=100_000, description="a whole number from 1 to 100000")]
Seconds = Annotated[float, msgspec.Meta(ge=0, le=604_800, description="a number of seconds, 0 to 604800")]
SecondsAbove0 = Annotated[float, msgspec.Meta(gt=0, le=604_800, description="a number of seconds above 0, to 604800")]
Above0 = Annotated[float, msgspec.Meta(gt=0, le=1_000_000, description="a number above 0, to 1000000")]


class PlanError(Exception):
    """The plan cannot be run; `problems` lists everything that is wrong with it."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = problems


class ClosedLoad(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="closed"):
    """`concurrency` slots; each sends its next request at once."""

    concurrency: Count


class OpenLoad(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="open"):
    """Requests come whatever the server does: at `rate_rps`, or when a file, the `trace`, says, `speed` times as fast.

    At most `max_outstanding` are in flight; the rest wait in the client, and their clocks run.
    """

    rate_rps: Above0 | None = None
    arrivals: Literal["poisson", "constant", "trace"] = "poisson"
    trace: Name | None = None
    speed: Above0 = 1.0
    max_outstanding: Count = 2000


Load: TypeAlias = ClosedLoad | OpenLoad


class TrafficClass(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of request, with lengths or with a file of prompts. `weight` is its share of the mix.

    With `turns` each one dealt is a conversation: every turn adds `input_tokens` of new text to all that was said
    before, and follows the answer after `think_s`.
    """

    name: Name
    weight: Above0 = 1.0
    input_tokens: Length | None = None
    output_tokens: Length | None = None
    prompts: Name | None = None
    turns: Length | None = None
    think_s: Seconds = 0.0


class Mix(msgspec.Struct, frozen=True, kw_only=True):
    """`shared_prefix_tokens` come before each generated prompt's own `input_tokens`."""

    classes: tuple[TrafficClass, ...]
    shared_prefix_tokens: Annotated[
        int, msgspec.Meta(ge=0, le=1_000_000, description="a whole number from 0 to 1000000")
    ] = 0

    @property
    def block(self) -> list[int]:
        """How often each class stands in the smallest block that holds the mix's exact ratio."""
        weights = [Fraction(one.weight).limit_denominator(1000) for one in self.classes]
        denominator = math.lcm(*(weight.denominator for weight in weights))
        counts = [int(weight * denominator) for weight in weights]
        divisor = math.gcd(*counts) or 1
        return [count // divisor for count in counts]


class Calibration(msgspec.Struct, frozen=True, kw_only=True):
    """prompt tokens ≈ overhead_tokens + words / words_per_token."""

    words_per_token: Annotated[float, msgspec.Meta(gt=0, le=100, description="a number above 0, to 100")]
    overhead_tokens: Annotated[float, msgspec.Meta(ge=0, le=1_000_000, description="a number, 0 or more")]


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    base_url: Name
    model: Name
    protocol: Protocol = "openai-chat"
    api_key_env: Name | None = None
    headers: dict[str, str] = {}
    verify_tls: bool = True
    # Trusted beside the system's authorities; PEM.
    ca_file: Name | None = None
    transport: Literal["auto", "wire", "httpx"] = "auto"
    # A URL, or the word `environment`: the proxy that its variables name. Null: none, whatever the environment says.
    proxy: Name | None = None
    http2: bool = False
    load: Load
    warmup_s: Seconds = 5.0
    measure_s: SecondsAbove0 = 30.0
    drain_s: Seconds = 120.0
    max_requests: Annotated[int, msgspec.Meta(ge=1, description="a whole number of at least 1")] | None = None
    timeout_s: SecondsAbove0 = 600.0
    # An answer that is silent for so long has stalled. Null: only `timeout_s` ends it.
    stall_s: SecondsAbove0 | None = None
    # The longest wait after a failure, also where the server's Retry-After asks for a longer one.
    backoff_max_s: Seconds = 10.0
    retries: Annotated[int, msgspec.Meta(ge=0, le=10, description="a whole number from 0 to 10")] = 0
    seed: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1, description="a whole number, 0 or more")] = 1
    processes: Annotated[int, msgspec.Meta(ge=1, le=256, description="a whole number from 1 to 256")] = 1
    mix: Mix
    request: dict[str, Any] = {}
    calibration: Calibration | None = None
    # A tokenizer.json: prompts get their exact lengths, and answers without usage are counted with it.
    tokenizer: Name | None = None
    keep_itl: bool = False


def read_plan(path: Path) -> Plan:
    """The plan in a file. Raises PlanError."""
    try:
        document = msgspec.json.decode(path.read_bytes())
    except OSError as error:
        raise PlanError([Problem("", f"the plan {path} cannot be read: {error.strerror}")]) from None
    except RecursionError:
        raise PlanError([Problem("", f"the plan {path} is nested too deeply")]) from None
    except msgspec.DecodeError as error:
        raise PlanError([Problem("", f"the plan {path} is not JSON: {error}")]) from None
    return parse_plan(document)


def parse_plan(document: object) -> Plan:
    """Raises PlanError with every problem."""
    problems = Problems()
    plan = build(Plan, document, "", problems)
    if plan is not None:
        _check_plan(plan, problems)
    if problems or plan is None:
        raise PlanError(problems)
    return plan


def parse_mix(document: object, path: str = "mix") -> Mix:
    """A mix alone, as a form holds it. Raises PlanError with every problem."""
    problems = Problems()
    mix = build(Mix, document, path, problems)
    if mix is not None:
        _check_mix(mix, path, problems)
    if problems or mix is None:
        raise PlanError(problems)
    return mix


def _check_plan(plan: Plan, problems: Problems) -> None:
    try:
        endpoint_url(plan.base_url, plan.protocol)
    except AddressError as error:
        problems.add("base_url", str(error))
    _check_transport(plan, problems)
    if isinstance(plan.load, OpenLoad):
        _check_arrivals(plan.load, problems)
    slots = plan.load.concurrency if isinstance(plan.load, ClosedLoad) else plan.load.max_outstanding
    if plan.processes > slots:
        problems.add("processes", f"must not exceed the {slots} requests in flight that they share")
    for name, value in plan.headers.items():
        path = join("headers", name)
        if not name or not name.isascii() or any(character in ' \t\r\n:"(),/;<=>?@[\\]{}' for character in name):
            problems.add(path, "is not a header name")
        elif name.lower() in _OWN_HEADERS:
            problems.add(path, "is set by the load generator itself; remove it")
        elif name.lower() == "authorization" and plan.api_key_env:
            problems.add(path, "is made of api_key_env; give only one of them")
        if any(not (character == "\t" or (" " <= character <= "\xff" and character != "\x7f")) for character in value):
            problems.add(path, "must hold printable Latin-1 characters on one line")
    for key in sorted(OWN_PARAMETERS & plan.request.keys()):
        problems.add(join("request", key), "is set by the load generator itself; remove it")
    _check_mix(plan.mix, "mix", problems)


def _check_transport(plan: Plan, problems: Problems) -> None:
    if plan.transport == "wire":
        for key in ("proxy", "http2"):
            if getattr(plan, key):
                problems.add("transport", f"wire does not do {key}; leave transport out, or remove {key}")
    if plan.proxy is not None and plan.proxy != "environment":
        try:
            parts = urlsplit(plan.proxy)
            usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            usable = False
        if not usable:
            problems.add("proxy", "must be a URL like http://host:3128, or the word environment")
    if not plan.verify_tls and plan.ca_file is not None:
        problems.add("ca_file", "must not stand beside verify_tls false: nothing would be verified with it")


def _check_arrivals(load: OpenLoad, problems: Problems) -> None:
    if load.arrivals == "trace":
        if load.trace is None:
            problems.add("load.trace", "is missing; name the file that holds the arrival times")
        if load.rate_rps is not None:
            problems.add("load.rate_rps", "must not stand beside arrivals trace; change the pace with speed")
    else:
        if load.rate_rps is None:
            problems.add("load.rate_rps", "is missing; it must be a number above 0")
        elif load.rate_rps < RATE_MIN_RPS:
            problems.add("load.rate_rps", f"must be at least {RATE_MIN_RPS:g}: a request in eleven days")
        for key in ("trace", "speed"):
            if getattr(load, key) != getattr(OpenLoad(), key):
                problems.add(f"load.{key}", 'needs arrivals "trace"')


def _check_mix(mix: Mix, path: str, problems: Problems) -> None:
    classes = join(path, "classes")
    if not 1 <= len(mix.classes) <= 100:
        problems.add(classes, f"must hold 1 to 100 classes, not {len(mix.classes)}")
        return
    for name, times in Counter(one.name for one in mix.classes).items():
        if times > 1:
            problems.add(classes, f"must have different names, but {name!r} stands {times} times")
    if min(mix.block) < 1 or sum(mix.block) > BLOCK_MAX:
        problems.add(classes, "must have weights in a ratio of small whole numbers, like 3, 4 and 3")
    for place, one in enumerate(mix.classes):
        where = f"{classes}[{place}]"
        if one.prompts is None:
            for key in ("input_tokens", "output_tokens"):
                if getattr(one, key) is None:
                    problems.add(join(where, key), "is missing; give a length (or a file of prompts as prompts)")
        else:
            for key in ("input_tokens", "turns"):
                if getattr(one, key) is not None:
                    problems.add(join(where, key), "must not stand beside prompts: the file gives the prompts")
        check_bounds(one.input_tokens, join(where, "input_tokens"), problems)
        check_bounds(one.output_tokens, join(where, "output_tokens"), problems)
        check_bounds(one.turns, join(where, "turns"), problems)
