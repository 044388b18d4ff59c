"""Sets what this generator reports beside what others report, at a load that disturbs none of them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

from tests.bench.table import OURS


def agreement(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """For each other client, metric and statistic: what it says, what we say, and the difference in percent of ours.

    The metrics are computed alike from each client's own times; what it publishes itself is in its row.
    """
    ours = next((row for row in rows if row["client"] == OURS and "failed" not in row), None)
    if ours is None:
        return []
    found = []
    others = [row for row in rows if row is not ours and "failed" not in row]
    for row, metric, statistic in product(others, ("ttft_ms", "tpot_ms", "e2e_ms"), ("p50", "mean")):
        theirs, own = row[metric][statistic], ours[metric][statistic]
        found.append(
            {
                "client": row["client"],
                "metric": metric,
                "statistic": statistic,
                "theirs": theirs,
                "ours": own,
                "difference_pct": 100 * (theirs - own) / own,
            }
        )
    return found
