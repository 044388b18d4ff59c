"""What all tests of whole runs need."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def busy_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests share their cores with each other: what that adds must not void stages whose medians are right enough."""
    monkeypatch.setattr("campaigns.analysis.validity.LATENESS_MAX_MS", 500.0)
    monkeypatch.setattr("campaigns.analysis.validity.RECEIVE_DELAY_MAX_MS", 500.0)
    monkeypatch.setattr("campaigns.analysis.load_line.DRIFT_MAX_PCT", 40.0)
