"""Compares what a client says of its requests with what the server did with the same ones. Starts nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.bench.clients import Floats, Reported
from tests.bench.server import Truth


def comparison(truth: Truth, reported: Reported, start_ns: float) -> dict[str, Any]:
    """Of requests that came since `start_ns`. An error is the size of the difference between client and server.

    `ttft_error_ms`: what the client calls TTFT against the server's first send − receive; `itl_error_ms` likewise, gap
    by gap, where the client shows as many as there were; `unmatched`: requests that the server does not know.
    """
    places = request_places(truth, reported)
    known = places >= 0
    chosen = known & (truth.received_ns[places] >= start_ns)
    at = places[chosen]
    gaps_ms = reported.gaps_ms
    return {
        "unmatched": int((~known).sum()),
        "ttft_ms": statistics(reported.ttft_ms[chosen]),
        "tpot_ms": statistics(reported.tpot_ms[chosen]),
        "e2e_ms": statistics(reported.e2e_ms[chosen]),
        "server": {"ttft_ms": statistics(truth.ttft_ms[at]), "tpot_ms": statistics(truth.tpot_ms[at])},
        "ttft_error_ms": statistics(np.abs(reported.ttft_ms[chosen] - truth.ttft_ms[at])),
        "tpot_error_ms": statistics(np.abs(reported.tpot_ms[chosen] - truth.tpot_ms[at])),
        "itl_error_ms": None if gaps_ms is None else statistics(_gap_errors(truth, gaps_ms, places, chosen)),
        **reported.notes,
    }


def request_places(truth: Truth, reported: Reported) -> NDArray[np.int64]:
    """Of each reported request among the server's; -1 where it is not one of them."""
    of_id = {request_id: place for place, request_id in enumerate(truth.request_ids) if request_id}
    found = [of_id.get(key, -1) if isinstance(key, str) else key for key in reported.keys]
    places = np.array(found, np.int64)
    return np.where(places < len(truth.request_ids), places, -1)


def statistics(values: Floats) -> dict[str, float] | None:
    """Null when there is none; NaN is none."""
    known = values[~np.isnan(values)]
    if not len(known):
        return None
    p50, p99 = np.percentile(known, (50, 99))
    return {"mean": float(known.mean()), "p50": float(p50), "p99": float(p99), "max": float(known.max())}


def _gap_errors(
    truth: Truth, gaps_ms: list[Floats], places: NDArray[np.int64], chosen: NDArray[np.bool_]
) -> NDArray[np.float64]:
    parts = [np.zeros(0)]
    for row in np.flatnonzero(chosen):
        sent_ms = np.diff(truth.sent_ns[places[row]]) / 1e6
        if len(sent_ms) == len(gaps_ms[row]):
            parts.append(np.abs(gaps_ms[row] - sent_ms))
    return np.concatenate(parts)
