"""Whether one stage's numbers count: was the load what was asked, was it steady, are its requests like the baseline's.

Knows one stage and the baseline; knows no criterion and gives no verdict on the server.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from scipy import stats

from campaigns.analysis.requests import RequestTable
from campaigns.analysis.window import Trend, Window, mean_e2e_s, mean_in_flight, trend, window_of

StageKind = Literal["baseline", "ladder", "refine", "closing"]

IN_FLIGHT_MIN_SHARE = 0.95
LATENESS_MAX_MS = 5.0
CPU_MAX_SHARE = 0.8
# A generator that reads so late sends the next request so late too, and no longer tells events apart.
RECEIVE_DELAY_MAX_MS = 20.0
LITTLE_MAX_PCT = 5.0
# Below this many mean request times the window's edges weigh too much for a hard judgement.
WINDOW_MIN_REQUEST_TIMES = 3
FEW_IN_BASELINE = 100
FEW_IN_STAGE = 30
CUT_MAX_PCT = 1.0
LENGTH_MAX_PCT = 10.0
LENGTH_P = 0.05
CACHED_INVALID_POINTS = 2.0
CACHED_WARNING_POINTS = 1.0
# A chat template's own tokens are the same in every request and cached after the first.
TEMPLATE_MAX_TOKENS = 64
TREND_P = 0.01
TREND_MAX_PCT = 10.0
FIRST_WAVE_MAX_RATIO = 2.0
FAILING_PCT = 1.0
TIMEOUT_MIN_RATIO = 3.0
_MORE_DRIVERS = "add a driver: a worker on another host, or one that has its host to itself"


@dataclass(frozen=True, eq=False)
class StageInput:
    """One stage as it was run. `table` holds every request of the stage, unmeasured ones included. None: not known."""

    concurrency: int
    kind: StageKind
    table: RequestTable
    window_s: float
    # When the window opened, from the stage's start; None: when the first measured request was sent.
    window_start_s: float | None = None
    in_flight_mean: float | None = None
    # Users pause between the turns of a conversation: fewer requests than users are in flight, as meant.
    users_think: bool = False
    lateness_p99_ms: float | None = None
    # At the highest percentile that a criterion asks for; None: judge by the p99.
    lateness_judged_ms: float | None = None
    # How long after the kernel the generator read what arrived; None: its event loop stamped the times.
    receive_delay_p99_ms: float | None = None
    # Of the busiest generator process, as a share of one core (0 to 1).
    cpu_share: float | None = None
    # Median output tokens that the mix asks for, per class; classes without a planned length are left out.
    planned_output_tokens: Mapping[str, float] = field(default_factory=dict)
    # Share of input tokens that the mix means to find in a prefix cache (0 to 1).
    intended_cached_share: float = 0.0
    timeout_s: float | None = None


@dataclass(frozen=True, slots=True)
class Check:
    """One rule's answer. `ok` is None when it could not be checked. A failed check of severity "invalid" takes the
    stage out of the verdict; with `understates` its fault can only make the server look better than it is, so that a
    stage beyond the limit stays evidence. `reason` and `remedy` are empty when all is well.
    """

    name: str
    ok: bool | None
    severity: Literal["invalid", "warning"]
    value: float | None
    limit: float | None
    reason: str = ""
    remedy: str = ""
    understates: bool = False


def check_stage(stage: StageInput, baseline: StageInput | None) -> tuple[Check, ...]:
    """Every rule's answer for `stage`; `baseline` is None for the opening baseline itself."""
    cohort = stage.table.cohort()
    window = window_of(stage.table, stage.window_s, stage.window_start_s)
    failing = (cohort.failure_pct or 0.0) >= FAILING_PCT
    return (
        _completed(cohort),
        _streamed(cohort),
        _enough(stage, cohort),
        _in_flight(stage, window, failing),
        _little(stage, window, failing),
        _lateness(stage),
        _receiving(stage),
        _cpu(stage),
        _cut(cohort),
        _timeout(stage, cohort),
        _lengths_alike(cohort, baseline.table.cohort() if baseline else None),
        _lengths_asked(stage, cohort),
        _cached(stage, cohort),
        _token_source(cohort),
        _hidden_reasoning(cohort),
        _first_wave(stage, cohort),
        _steady(stage, cohort),
    )


def is_valid(checks: Sequence[Check]) -> bool:
    return not invalid_checks(checks)


def invalid_checks(checks: Sequence[Check]) -> tuple[Check, ...]:
    """The failed checks that take the stage out of the verdict."""
    return tuple(check for check in checks if check.ok is False and check.severity == "invalid")


def warnings(checks: Sequence[Check]) -> tuple[Check, ...]:
    """The failed checks that leave the stage valid."""
    return tuple(check for check in checks if check.ok is False and check.severity == "warning")


def _completed(cohort: RequestTable) -> Check:
    answered = int(np.count_nonzero(cohort.ok))
    if answered:
        return Check("completed", True, "invalid", answered, 1)
    failed = {name: count for name, count in cohort.counts.items() if count}
    reason = f"all {len(cohort)} requests failed ({_listed(failed)})" if failed else "no request was measured"
    remedy = "look at the errors of the failed requests" if failed else "measure longer"
    return Check("completed", False, "invalid", 0, 1, reason, remedy, understates=bool(failed))


def _streamed(cohort: RequestTable) -> Check:
    answered = cohort.select(cohort.ok)
    if not len(answered):
        return Check("streamed", None, "invalid", None, None)
    first_seen = float(np.mean(np.isfinite(answered.t_first_ns)))
    if first_seen == 0:
        reason = "no answer was streamed, so there is no time to first token"
        return Check("streamed", False, "invalid", 0.0, None, reason, "turn streaming on in the server or its gateway")
    several = answered.output_tokens >= 2
    in_pieces = several & (answered.t_last_ns > answered.t_first_ns)
    share = float(in_pieces.sum() / several.sum()) if several.any() else 1.0
    if share < 0.5:
        reason = f"{1 - share:.0%} of the answers arrived in one piece, which shows no time per token"
        remedy = "look for a gateway that buffers, or reasoning that the server hides"
        return Check("streamed", False, "warning", share, 0.5, reason, remedy)
    return Check("streamed", True, "invalid", first_seen, None)


def _enough(stage: StageInput, cohort: RequestTable) -> Check:
    answered = int(np.count_nonzero(cohort.ok))
    limit = FEW_IN_BASELINE if stage.kind == "baseline" else FEW_IN_STAGE
    if answered >= limit:
        return Check("enough_requests", True, "warning", answered, limit)
    reason = f"few requests: {answered} answered, {limit} wanted"
    return Check("enough_requests", False, "warning", answered, limit, reason, "measure longer")


def _in_flight(stage: StageInput, window: Window | None, failing: bool) -> Check:
    in_flight = stage.in_flight_mean
    if in_flight is None and window is not None:
        in_flight = mean_in_flight(stage.table, window)
    limit = IN_FLIGHT_MIN_SHARE * stage.concurrency
    if in_flight is None or stage.table.open_loop or stage.users_think:
        return Check("in_flight", None, "invalid", in_flight, limit)
    if in_flight >= limit:
        return Check("in_flight", True, "invalid", in_flight, limit)
    reason = f"only {in_flight:.1f} of {stage.concurrency} requests were in flight"
    if failing:
        # Refused or failed requests leave their slot early: the server then had less to do than asked.
        return Check("in_flight", False, "invalid", in_flight, limit, f"{reason}: requests fail", "", understates=True)
    remedy = "the load generator or a limit on connections holds requests back: look at proxies, and add processes"
    return Check("in_flight", False, "invalid", in_flight, limit, f"client-limited: {reason}", remedy)


def _little(stage: StageInput, window: Window | None, failing: bool) -> Check:
    """Little's law N = X R, as accounting in the window: X R T is the sum of the times that requests spent inside it.

    The plain product of completions a second and their mean time is wrong at the edges (a request longer than the
    window never completes in it), so each row counts with the part of its time that lies inside the window. Against
    the in-flight mean that the generator counted by itself this shows lost rows, wrong stamps and slots that hold no
    request. A window under `WINDOW_MIN_REQUEST_TIMES` mean request times only warns.
    """
    if stage.in_flight_mean is None or stage.in_flight_mean <= 0 or window is None:
        return Check("littles_law", None, "invalid", None, LITTLE_MAX_PCT)
    from_rows = mean_in_flight(stage.table, window)
    off_pct = 100.0 * abs(stage.in_flight_mean - from_rows) / stage.in_flight_mean
    request_s = mean_e2e_s(stage.table)
    short = request_s is None or window.seconds < WINDOW_MIN_REQUEST_TIMES * request_s
    severity: Literal["invalid", "warning"] = "warning" if short else "invalid"
    if off_pct < LITTLE_MAX_PCT:
        return Check("littles_law", True, severity, off_pct, LITTLE_MAX_PCT)
    reason = (
        f"Little's law is off by {off_pct:.0f}%: {stage.in_flight_mean:.1f} requests were counted in flight, "
        f"their times add up to {from_rows:.1f}"
    )
    remedy = "requests are missing from the log, or the client waited between them"
    return Check("littles_law", False, severity, off_pct, LITTLE_MAX_PCT, reason, remedy, understates=failing)


def _lateness(stage: StageInput) -> Check:
    """A generator that is late for one request in a hundred spoils a p99 and leaves a median as it is: it voids the
    stage when it is late at the percentile that is judged, and warns otherwise."""
    late_ms = stage.lateness_p99_ms
    ok = None if late_ms is None else late_ms < LATENESS_MAX_MS
    if late_ms is None or ok:
        return Check("lateness", ok, "invalid", late_ms, LATENESS_MAX_MS)
    remedy = _MORE_DRIVERS
    judged_ms = late_ms if stage.lateness_judged_ms is None else stage.lateness_judged_ms
    if judged_ms < LATENESS_MAX_MS:
        reason = f"the load generator was {late_ms:.1f} ms late (p99): tail percentiles hold its delay, medians do not"
        return Check("lateness", False, "warning", late_ms, LATENESS_MAX_MS, reason, remedy)
    reason = f"the tester is the limit: the load generator was {late_ms:.1f} ms late (p99)"
    return Check("lateness", False, "invalid", late_ms, LATENESS_MAX_MS, reason, remedy)


def _receiving(stage: StageInput) -> Check:
    late_ms = stage.receive_delay_p99_ms
    ok = None if late_ms is None else late_ms < RECEIVE_DELAY_MAX_MS
    if ok is not False:
        return Check("receiving", ok, "invalid", late_ms, RECEIVE_DELAY_MAX_MS)
    reason = f"the tester is the limit: the load generator read what arrived {late_ms:.0f} ms late (p99)"
    return Check("receiving", False, "invalid", late_ms, RECEIVE_DELAY_MAX_MS, reason, _MORE_DRIVERS)


def _cpu(stage: StageInput) -> Check:
    share = stage.cpu_share
    ok = None if share is None else share < CPU_MAX_SHARE
    if ok is not False:
        return Check("client_cpu", ok, "invalid", share, CPU_MAX_SHARE)
    reason = f"the tester is the limit: the load generator used {share:.0%} of a core"
    return Check("client_cpu", False, "invalid", share, CPU_MAX_SHARE, reason, _MORE_DRIVERS)


def _cut(cohort: RequestTable) -> Check:
    if not len(cohort):
        return Check("cut_off", None, "invalid", None, CUT_MAX_PCT)
    cut = cohort.counts["cancelled"]
    cut_pct = 100.0 * cut / len(cohort)
    if cut_pct <= CUT_MAX_PCT:
        return Check("cut_off", True, "invalid", cut_pct, CUT_MAX_PCT)
    reason = f"{cut} of {len(cohort)} requests were still running at the drain limit and were cut off"
    # The slow ones are cut: what is left looks faster than it was.
    return Check("cut_off", False, "invalid", cut_pct, CUT_MAX_PCT, reason, "allow a longer drain", understates=True)


def _timeout(stage: StageInput, cohort: RequestTable) -> Check:
    known = cohort.e2e_ms[np.isfinite(cohort.e2e_ms)]
    if stage.timeout_s is None or not known.size:
        return Check("timeout", None, "warning", None, None)
    ratio = stage.timeout_s * 1000.0 / max(float(np.median(known)), 1e-9)
    if ratio >= TIMEOUT_MIN_RATIO:
        return Check("timeout", True, "warning", ratio, TIMEOUT_MIN_RATIO)
    reason = f"the client gives up after {stage.timeout_s:g} s, only {ratio:.1f} times the median request"
    return Check("timeout", False, "warning", ratio, TIMEOUT_MIN_RATIO, reason, "raise the time-out")


def _lengths_alike(cohort: RequestTable, baseline: RequestTable | None) -> Check:
    """Output lengths against the baseline's, per class. Against what was asked only warns (`_lengths_asked`): a server
    that always ends early still has a true load line, for the lengths it gives. Where lengths are drawn from a
    distribution two medians differ by chance, so a rank test (Mann-Whitney, p < 0.05) must agree.
    """
    if baseline is None:
        return Check("output_lengths", None, "invalid", None, LENGTH_MAX_PCT)
    worst, reason = 0.0, ""
    for name in cohort.class_names:
        here, there = _output_lengths(cohort, name), _output_lengths(baseline, name)
        if not here.size or not there.size or np.median(there) <= 0:
            continue
        change_pct = 100.0 * (float(np.median(here)) / float(np.median(there)) - 1.0)
        if abs(change_pct) <= LENGTH_MAX_PCT or float(stats.mannwhitneyu(here, there).pvalue) >= LENGTH_P:
            continue
        if abs(change_pct) > abs(worst):
            worst = change_pct
            reason = (
                f"stages not alike: class {name} gave {np.median(here):g} output tokens at the median, "
                f"{np.median(there):g} in the baseline"
            )
    if not reason:
        return Check("output_lengths", True, "invalid", worst, LENGTH_MAX_PCT)
    remedy = "fix the output length: ignore_eos, or min_tokens equal to max_tokens"
    return Check("output_lengths", False, "invalid", worst, LENGTH_MAX_PCT, reason, remedy)


def _lengths_asked(stage: StageInput, cohort: RequestTable) -> Check:
    worst, reasons, seen = 0.0, [], False
    for name, asked in stage.planned_output_tokens.items():
        lengths = _output_lengths(cohort, name)
        if not lengths.size or asked <= 0:
            continue
        seen = True
        change_pct = 100.0 * (float(np.median(lengths)) / asked - 1.0)
        if abs(change_pct) > abs(worst):
            worst = change_pct
        if abs(change_pct) > LENGTH_MAX_PCT:
            reasons.append(f"class {name} gave {np.median(lengths):g} output tokens at the median, {asked:g} asked")
    if not reasons:
        return Check("output_asked", True if seen else None, "warning", worst if seen else None, LENGTH_MAX_PCT)
    remedy = "the load line holds for the lengths given; ask the server to ignore the end of text (ignore_eos)"
    return Check("output_asked", False, "warning", worst, LENGTH_MAX_PCT, "; ".join(reasons), remedy)


def _cached(stage: StageInput, cohort: RequestTable) -> Check:
    """Cached share of the input beyond the mix's intent, in percentage points. A few tokens that nearly every request
    has cached are the chat template, not a replayed prompt: at most `TEMPLATE_MAX_TOKENS` and half a median prompt."""
    known = cohort.ok & np.isfinite(cohort.cached_tokens) & (cohort.input_tokens > 0)
    if not known.any():
        return Check("prefix_cache", None, "invalid", None, CACHED_INVALID_POINTS)
    cached, inputs = cohort.cached_tokens[known], cohort.input_tokens[known]
    template = min(float(np.quantile(cached, 0.1)), TEMPLATE_MAX_TOKENS, float(np.median(inputs)) / 2)
    share = float(np.maximum(cached - template, 0.0).sum() / inputs.sum())
    beyond = 100.0 * (share - stage.intended_cached_share)
    if beyond <= CACHED_WARNING_POINTS:
        return Check("prefix_cache", True, "invalid", beyond, CACHED_INVALID_POINTS)
    reason = f"{share:.1%} of the input came from a prefix cache, {stage.intended_cached_share:.1%} meant"
    remedy = "something sent the same prompts before: use unique prompts, or restart the server"
    severity: Literal["invalid", "warning"] = "invalid" if beyond > CACHED_INVALID_POINTS else "warning"
    return Check("prefix_cache", False, severity, beyond, CACHED_INVALID_POINTS, reason, remedy)


def _token_source(cohort: RequestTable) -> Check:
    answered = cohort.select(cohort.ok)
    used = {
        name: int(np.count_nonzero(answered.token_source == index)) for index, name in enumerate(answered.token_sources)
    }
    used = {name: count for name, count in used.items() if count}
    if len(used) <= 1:
        return Check("token_source", True if used else None, "warning", None, None)
    reason = f"output tokens were counted in different ways: {_listed(used)}"
    remedy = "make the server report usage in every stream, or configure the model's tokenizer"
    return Check("token_source", False, "warning", None, None, reason, remedy)


def _hidden_reasoning(cohort: RequestTable) -> Check:
    answered = cohort.select(cohort.ok)
    if not len(answered):
        return Check("hidden_reasoning", None, "warning", None, 0.0)
    hidden_pct = 100.0 * float(np.mean(answered.hidden_reasoning))
    if not hidden_pct:
        return Check("hidden_reasoning", True, "warning", 0.0, 0.0)
    reason = (
        f"{hidden_pct:.0f}% of the answers began with thoughts that the server counts but does not send: "
        "TTFT is the time to the first visible token, and TPOT cannot be told"
    )
    return Check("hidden_reasoning", False, "warning", hidden_pct, 0.0, reason, "have the server send its reasoning")


def _first_wave(stage: StageInput, cohort: RequestTable) -> Check:
    """The first C requests against the rest: a cold start (graphs, connections, caches) that a warm-up should hold."""
    values = cohort.ttft_ms
    known = np.isfinite(values)
    in_order = values[known][np.argsort(cohort.start_ns[known], kind="stable")]
    first, rest = in_order[: stage.concurrency], in_order[stage.concurrency :]
    if stage.concurrency < 2 or rest.size < stage.concurrency or np.median(rest) <= 0:
        return Check("warm", None, "warning", None, FIRST_WAVE_MAX_RATIO)
    ratio = float(np.median(first) / np.median(rest))
    if ratio <= FIRST_WAVE_MAX_RATIO:
        return Check("warm", True, "warning", ratio, FIRST_WAVE_MAX_RATIO)
    reason = f"the first {stage.concurrency} requests took {ratio:.1f} times as long to their first token as the rest"
    return Check("warm", False, "warning", ratio, FIRST_WAVE_MAX_RATIO, reason, "warm up longer")


def _steady(stage: StageInput, cohort: RequestTable) -> Check:
    found = {metric: trend(cohort, metric, stage.window_s) for metric in ("ttft_ms", "tpot_ms")}
    known = {metric: one for metric, one in found.items() if one is not None}
    if not known:
        return Check("steady", None, "invalid", None, TREND_MAX_PCT)
    moving = {metric: one for metric, one in known.items() if _is_material(one)}
    if not moving:
        return Check("steady", True, "invalid", max((t.change_pct for t in known.values()), key=abs), TREND_MAX_PCT)
    metric = max(moving, key=lambda name: abs(moving[name].change_pct))
    change = moving[metric].change_pct
    label = {"ttft_ms": "TTFT", "tpot_ms": "TPOT"}[metric]
    if change < 0 or stage.kind in ("baseline", "closing"):
        reason = f"not steady: {label} changed by {change:+.0f}% across the window"
        return Check("steady", False, "invalid", change, TREND_MAX_PCT, reason, "warm up longer, and measure longer")
    reason = f"demand exceeds capacity at {stage.concurrency}: {label} grew by {change:.0f}% across the window"
    # The queue would have grown on: at its true end the stage is worse than its numbers say.
    return Check("growing", False, "invalid", change, TREND_MAX_PCT, reason, "this is a finding; lower the load", True)


def _is_material(one: Trend) -> bool:
    return one.p < TREND_P and abs(one.change_pct) > TREND_MAX_PCT


def _output_lengths(cohort: RequestTable, name: str) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    rows = cohort.of_class(name)
    return rows.output_tokens[rows.ok & np.isfinite(rows.output_tokens)]


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items())
