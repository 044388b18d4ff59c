"""Rules that end a stage before its time. Each takes the generator's counts as they come and answers whether it fired,
with the reason in words; what follows from that is the conductor's to decide.
"""

from __future__ import annotations

from campaigns.services.outcomes import Outcomes

# Fewer ended requests than this say nothing yet: the first one of a slow server may fail by chance.
ENDED_MIN = 5


class FailureShare:
    """Fires when, `after_s` into a stage or later, more than `error_pct` of the requests that ended have failed."""

    def __init__(self, error_pct: float, after_s: float) -> None:
        self._error_pct = error_pct
        self._after_s = after_s
        self._reason: str | None = None

    def take(self, t_s: float, outcomes: Outcomes) -> None:
        """`t_s`: seconds since the stage began."""
        enough = t_s >= self._after_s and outcomes.ended >= ENDED_MIN
        if self._reason is None and enough and self.exceeded(outcomes):
            self._reason = str(outcomes)

    def exceeded(self, outcomes: Outcomes) -> bool:
        """Whether the share of a whole stage is too high."""
        share = outcomes.failed_pct
        return share is not None and share > self._error_pct

    def fired(self) -> str | None:
        """The reason in words, once it fired."""
        return self._reason
