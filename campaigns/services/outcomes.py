"""How the requests of a stage ended, counted and in words; from the generator's live counts or from its request log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from campaigns.analysis.requests import OUTCOMES

FAILURES = tuple(name for name in OUTCOMES if name not in ("ok", "cancelled"))


@dataclass(frozen=True, slots=True)
class Outcomes:
    """`failed`: count by outcome, with the HTTP status where it is known. `cancelled` requests, which the generator cut
    off itself, are in neither. `example`: what the server said most often when it failed."""

    ok: int
    failed: Mapping[str, int]
    example: str = ""

    @classmethod
    def of_counts(cls, counts: Mapping[str, int]) -> Outcomes:
        """From counts by outcome; other counts among them (sent, measured, …) are passed over."""
        return cls(counts.get("ok", 0), {_words(name, None): counts[name] for name in FAILURES if counts.get(name)})

    @classmethod
    def of_log(cls, arrow: bytes) -> Outcomes:
        """From a request log, an Arrow IPC file. Raises pyarrow.ArrowInvalid."""
        with pa.ipc.open_file(pa.py_buffer(arrow)) as reader:
            log = reader.read_all().select(["outcome", "http_status", "error"])
        log = log.set_column(0, "outcome", log.column("outcome").cast(pa.string()))
        ok = pc.sum(pc.equal(log.column("outcome"), "ok")).as_py() or 0
        failed = log.filter(pc.is_in(log.column("outcome"), pa.array(FAILURES)))
        groups = failed.group_by(["outcome", "http_status"]).aggregate([([], "count_all")]).to_pylist()
        errors = failed.column("error").cast(pa.string()).drop_null().value_counts().to_pylist()
        return cls(
            ok,
            {_words(group["outcome"], group["http_status"]): group["count_all"] for group in groups},
            max(errors, key=lambda one: one["counts"], default={"values": ""})["values"],
        )

    @property
    def failures(self) -> int:
        return sum(self.failed.values())

    @property
    def ended(self) -> int:
        return self.ok + self.failures

    @property
    def failed_pct(self) -> float | None:
        return 100 * self.failures / self.ended if self.ended else None

    def __str__(self) -> str:
        """Such as "97% of 41 requests failed: 40 × refused (429), such as: queue is full"."""
        if not self.failed:
            return f"none of {self.ended} requests failed" if self.ended else "no request ended"
        words = ", ".join(f"{count} × {name}" for name, count in sorted(self.failed.items(), key=lambda item: -item[1]))
        example = f", such as: {self.example}" if self.example else ""
        return f"{self.failed_pct:.0f}% of {self.ended} requests failed: {words}{example}"


def _words(outcome: str, status: int | None) -> str:
    return outcome.replace("_", " ") + (f" ({status})" if status is not None else "")
