"""Computes a stage's summary from its request table. Percentiles are exact over the measured requests that ended ok."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from workers.loadgen.answer import Outcome
from workers.loadgen.gaps import Counted, gap_statistics

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


def measured_summary(
    table: pa.Table,
    window: Window,
    open_loop: bool,
    class_names: Sequence[str],
    gaps: Sequence[Sequence[Counted]],
) -> dict[str, Any]:
    """The keys of a summary that follow from the requests alone. `gaps` are each class's, as every process counted."""
    rows = _Rows(table, open_loop)
    return {
        "window_s": window.seconds,
        "requests": rows.counts(np.ones(len(table), bool)),
        **rows.latencies(np.ones(len(table), bool), [one for counted in gaps for one in counted]),
        **rows.rates(window),
        "token_source": rows.token_source(),
        "per_class": {
            name: rows.of_class(rows.classes.are(name), counted)
            for name, counted in zip(class_names, gaps, strict=True)
        },
    }


class _Labels:
    """A column of labels as numbers: as texts, a million of them would take more memory than all else."""

    def __init__(self, column: pa.ChunkedArray) -> None:
        whole = column.combine_chunks()
        self._codes = np.asarray(whole.indices.fill_null(-1).to_numpy())
        self._texts: list[str] = whole.dictionary.to_pylist()

    def are(self, text: str) -> NDArray[np.bool_]:
        return np.asarray(self._codes == (self._texts.index(text) if text in self._texts else len(self._texts)), bool)

    def among(self, chosen: NDArray[np.bool_]) -> set[str]:
        return {self._texts[code] for code in np.unique(self._codes[chosen]) if code >= 0}


class _Rows:
    """A table's columns as numpy arrays; missing numbers are NaN."""

    def __init__(self, table: pa.Table, open_loop: bool) -> None:
        def numbers(name: str) -> Floats:
            return np.asarray(table[name].cast(pa.float64()).to_numpy(), np.float64)

        self.classes = _Labels(table["class"])
        self.outcomes = _Labels(table["outcome"])
        self.sources = _Labels(table["token_source"])
        self.measured = np.asarray(table["measured"].to_numpy(), bool)
        self.sent, self.end = numbers("t_sent_ns"), numbers("t_end_ns")
        self.first, self.last = numbers("t_first_ns"), numbers("t_last_ns")
        self.tokens, self.events = numbers("output_tokens"), numbers("output_events")
        self.input_tokens = numbers("input_tokens")
        self.planned = {"input": numbers("planned_input_tokens"), "output": numbers("planned_output_tokens")}
        self.window_events = numbers("window_events")
        self.ok = self.measured & self.outcomes.are(Outcome.OK)
        since = numbers("t_due_ns") if open_loop else self.sent
        self.ttft_ms = (self.first - since) / _MS
        self.e2e_ms = (self.end - since) / _MS
        # The server counts thoughts that it did not send: what came first was not the first token.
        reasoning, answered = numbers("reasoning_tokens"), numbers("t_answer_ns")
        self.hidden = (reasoning > 0) & (answered == self.first)
        self.answer_ms = (answered - since) / _MS
        # One event that carries all tokens (a gateway that buffers) shows no time between tokens; neither do those of
        # which most were hidden.
        shows_pace = (self.tokens >= 2) & (self.events >= 2) & ~self.hidden
        with np.errstate(divide="ignore", invalid="ignore"):
            self.tpot_ms = np.where(shows_pace, (self.last - self.first) / (self.tokens - 1) / _MS, np.nan)
        self._itl = table["itl_ns"] if "itl_ns" in table.column_names else None
        self.attempts = np.asarray(table["attempt"].to_numpy())

    def counts(self, among: NDArray[np.bool_]) -> dict[str, int]:
        """`sent` counts all; the others only what was measured. `retries`: attempts after a request's first."""
        measured = among & self.measured
        return {
            "sent": int((among & ~np.isnan(self.sent)).sum()),
            "measured": int(measured.sum()),
            **{str(outcome): int((measured & self.outcomes.are(outcome)).sum()) for outcome in Outcome},
            "retries": int((measured & (self.attempts > 1)).sum()),
        }

    def latencies(self, among: NDArray[np.bool_], gaps: Sequence[Counted]) -> dict[str, Any]:
        """`answer_ms`: to the first output that was not a thought, of answers that began with thoughts."""
        chosen = among & self.ok
        return {
            "ttft_ms": statistics(self.ttft_ms[chosen]),
            "tpot_ms": statistics(self.tpot_ms[chosen]),
            "itl_ms": self._gap_statistics(chosen, gaps),
            "e2e_ms": statistics(self.e2e_ms[chosen]),
            "answer_ms": statistics(self.answer_ms[chosen & (self.answer_ms > self.ttft_ms)]),
            "hidden_reasoning": int((chosen & self.hidden).sum()),
        }

    def _gap_statistics(self, chosen: NDArray[np.bool_], gaps: Sequence[Counted]) -> dict[str, Any] | None:
        """Of the gaps themselves where they were kept, else of their counts."""
        if self._itl is None:
            return gap_statistics(gaps, PERCENTILES)
        kept_ns = pc.list_flatten(self._itl.filter(pa.array(chosen))).to_numpy()
        return statistics(np.asarray(kept_ns, np.float64) / _MS)

    def of_class(self, among: NDArray[np.bool_], gaps: Sequence[Counted]) -> dict[str, Any]:
        chosen = among & self.ok
        return {
            "requests": self.counts(among),
            **self.latencies(among, gaps),
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
        completed = int((inside & self.outcomes.are(Outcome.OK)).sum())
        shared = np.minimum(self.end, window.end_ns) - np.maximum(self.sent, window.start_ns)
        in_flight = np.nansum(np.clip(shared, 0, None)) / (window.end_ns - window.start_ns)
        return {
            "output_tokens_per_s": self._window_tokens(inside) / window.seconds,
            "requests_per_s": completed / window.seconds,
            "in_flight_mean": float(in_flight),
        }

    def token_source(self) -> str | None:
        """usage, tokenizer, events, or mixed, of the measured requests that ended ok."""
        sources = self.sources.among(self.ok)
        return "mixed" if len(sources) > 1 else next(iter(sources), None)

    def _window_tokens(self, ended_inside: NDArray[np.bool_]) -> float:
        """Events inside the window, each worth its request's tokens an event, or the usual where it has no count."""
        counted = (self.sources.are("usage") | self.sources.are("tokenizer")) & (self.events > 0)
        usual = self.tokens[counted].sum() / self.events[counted].sum() if counted.any() else 1.0
        with np.errstate(divide="ignore", invalid="ignore"):
            each = np.where(np.isnan(self.tokens), usual, self.tokens / self.events)
        arrived = float((self.window_events * each)[self.window_events > 0].sum())
        # Tokens that no event showed arrived, as far as can be told, with the end.
        unseen = ended_inside & (self.events == 0) & (self.tokens > 0)
        return arrived + float(self.tokens[unseen].sum())
