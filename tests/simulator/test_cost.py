from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.simulator.scenarios import SCENARIOS

COST = SCENARIOS["healthy"].cost
COUNTS = st.integers(1, 100_000)


def test_a_lone_decode_step_reads_every_weight_once() -> None:
    weights_s = 16e9 / 1.7e12
    assert COST.step_s(1, 0, 1) == pytest.approx(weights_s + 0.0004 + 0.00006)


def test_a_long_prefill_is_bound_by_compute() -> None:
    assert COST.step_s(2000, 0, 1) == pytest.approx(2 * 8e9 * 2000 / 2e14 + 0.0004 + 0.00006)


def test_contexts_cost_their_keys_and_values() -> None:
    assert COST.step_s(1, 10_000, 1) - COST.step_s(1, 0, 1) == pytest.approx(10_000 * 131_072 / 1.7e12)


@given(tokens=COUNTS, kv_tokens=COUNTS, sequences=COUNTS, more=COUNTS)
def test_more_work_is_never_faster(tokens: int, kv_tokens: int, sequences: int, more: int) -> None:
    step_s = COST.step_s(tokens, kv_tokens, sequences)
    assert COST.step_s(tokens + more, kv_tokens, sequences) >= step_s > 0
    assert COST.step_s(tokens, kv_tokens + more, sequences) > step_s
    assert COST.step_s(tokens, kv_tokens, sequences + more) > step_s
