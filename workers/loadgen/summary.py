"""Computes a stage's summary from its request table. Percentiles are exact over the measured requests that ended ok."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from workers.loadgen.answer import Outcome

Floats = NDArray[np.float64]
PERCENTILES = (50, 90, 95, 99)
_MS = 1e6


@dataclass(frozen=True, slots=True)
class Window:
    """Of measurement, in ns from the stage's start: it ends early when the stage did."""

    start_ns: int
    end_ns: int

    @property
    def seconds(self) -> float:
        return max(0, self.end_ns - self.start_ns) / 1e9


def statistics(values: Floats) -> dict[str, float | int] | None:
    """{mean, p50, p90, p95, p99, min, max, count} of the values that are not NaN; null when there is none."""
    values = values[~np.isnan(values)]
    if not len(values):
        return None
    found = zip(PERCENTILES, np.percentile(values, PERCENTILES), strict=True)
    return {
        "mean": float(values.mean()),
        **{f"p{share}": float(value) for share, value in found},
        "min": float(values.min()),
        "max": float(values.max()),
        "count": len(values),
    }


def measured_summary(table: pa.Table, window: Window, open_loop: bool, class_names: list[str]) -> dict[str, Any]:
    """The keys of a summary that follow from the requests alone."""
    rows = _Rows(table, open_loop)
    return {
        "window_s": window.seconds,
        "requests": rows.counts(np.ones(len(table), bool)),
        **rows.latencies(np.ones(len(table), bool)),
        **rows.rates(window),
        "token_source": rows.token_source(),
        "per_class": {name: rows.of_class(rows.classes == name) for name in class_names},
    }


class _Rows:
    """A table's columns as numpy arrays; missing numbers are NaN."""

    def __init__(self, table: pa.Table, open_loop: bool) -> None:
        def numbers(name: str) -> Floats:
            return np.asarray(table[name].cast(pa.float64()).to_numpy(), np.float64)

        def labels(name: str) -> NDArray[np.object_]:
            return np.asarray(table[name].cast(pa.string()).to_numpy(), object)

        self.classes = labels("class")
        self.outcomes = labels("outcome")
        self.sources = labels("token_source")
        self.measured = np.asarray(table["measured"].to_numpy(), bool)
        self.sent, self.end = numbers("t_sent_ns"), numbers("t_end_ns")
        self.first, self.last = numbers("t_first_ns"), numbers("t_last_ns")
        self.tokens, self.events = numbers("output_tokens"), numbers("output_events")
        self.input_tokens = numbers("input_tokens")
        self.planned = {"input": numbers("planned_input_tokens"), "output": numbers("planned_output_tokens")}
        self.window_events = numbers("window_events")
        self.ok = self.measured & (self.outcomes == Outcome.OK)
        since = numbers("t_due_ns") if open_loop else self.sent
        self.ttft_ms = (self.first - since) / _MS
        self.e2e_ms = (self.end - since) / _MS
        # One event that carries all tokens (hidden reasoning, a gateway that buffers) shows no time between tokens.
        shows_pace = (self.tokens >= 2) & (self.events >= 2)
        with np.errstate(divide="ignore", invalid="ignore"):
            self.tpot_ms = np.where(shows_pace, (self.last - self.first) / (self.tokens - 1) / _MS, np.nan)
        self._itl = table["itl_ns"]

    def counts(self, among: NDArray[np.bool_]) -> dict[str, int]:
        """`sent` counts all; the others only what was measured."""
        measured = among & self.measured
        counted = {"sent": int((among & ~np.isnan(self.sent)).sum()), "measured": int(measured.sum())}
        return counted | {str(outcome): int((measured & (self.outcomes == outcome)).sum()) for outcome in Outcome}

    def latencies(self, among: NDArray[np.bool_]) -> dict[str, Any]:
        chosen = among & self.ok
        gaps = pc.list_flatten(self._itl.filter(pa.array(chosen))).to_numpy()
        return {
            "ttft_ms": statistics(self.ttft_ms[chosen]),
            "tpot_ms": statistics(self.tpot_ms[chosen]),
            "itl_ms": statistics(np.asarray(gaps, np.float64) / _MS),
            "e2e_ms": statistics(self.e2e_ms[chosen]),
        }

    def of_class(self, among: NDArray[np.bool_]) -> dict[str, Any]:
        chosen = among & self.ok
        return {
            "requests": self.counts(among),
            **self.latencies(among),
            "input_tokens": statistics(self.input_tokens[chosen]),
            "output_tokens": statistics(self.tokens[chosen]),
            "planned_input_tokens": statistics(self.planned["input"][chosen]),
            "planned_output_tokens": statistics(self.planned["output"][chosen]),
        }

    def rates(self, window: Window) -> dict[str, float | None]:
        """By what happened inside the window, whichever request it belongs to."""
        if window.seconds <= 0:
            return {"output_tokens_per_s": None, "requests_per_s": None, "in_flight_mean": None}
        inside = (self.end >= window.start_ns) & (self.end < window.end_ns)
        completed = int((inside & (self.outcomes == Outcome.OK)).sum())
        shared = np.minimum(self.end, window.end_ns) - np.maximum(self.sent, window.start_ns)
        in_flight = np.nansum(np.clip(shared, 0, None)) / (window.end_ns - window.start_ns)
        return {
            "output_tokens_per_s": self._window_tokens(inside) / window.seconds,
            "requests_per_s": completed / window.seconds,
            "in_flight_mean": float(in_flight),
        }

    def token_source(self) -> str | None:
        """usage, events, or mixed, of the measured requests that ended ok."""
        sources = set(self.sources[self.ok])
        return "mixed" if len(sources) > 1 else next(iter(sources), None)

    def _window_tokens(self, ended_inside: NDArray[np.bool_]) -> float:
        """Events inside the window, each worth its request's tokens an event, or the usual where it has no count."""
        counted = (self.sources == "usage") & (self.events > 0)
        usual = self.tokens[counted].sum() / self.events[counted].sum() if counted.any() else 1.0
        with np.errstate(divide="ignore", invalid="ignore"):
            each = np.where(np.isnan(self.tokens), usual, self.tokens / self.events)
        arrived = float((self.window_events * each)[self.window_events > 0].sum())
        # Tokens that no event showed arrived, as far as can be told, with the end.
        unseen = ended_inside & (self.events == 0) & (self.tokens > 0)
        return arrived + float(self.tokens[unseen].sum())
