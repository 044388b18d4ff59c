"""Sets what this generator reports beside what others report, at a load that disturbs none of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.bench.table import OURS


def agreement(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """For each other client and metric: its median, ours, and the difference in percent of ours."""
    ours = next((row for row in rows if row["client"] == OURS and "failed" not in row), None)
    if ours is None:
        return []
    found = []
    for row in rows:
        for metric in ("ttft_ms", "tpot_ms", "e2e_ms"):
            if row is not ours and "failed" not in row and row[metric] and ours[metric]:
                theirs, own = row[metric]["p50"], ours[metric]["p50"]
                found.append(
                    {
                        "client": row["client"],
                        "metric": metric,
                        "theirs_p50": theirs,
                        "ours_p50": own,
                        "difference_pct": 100 * (theirs - own) / own,
                    }
                )
    return found
