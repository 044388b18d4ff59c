from __future__ import annotations

import pytest

from workers.simulator.replica import Replica
from workers.simulator.scenarios import SCENARIOS
from workers.simulator.scheduler import Sequence

HEALTHY = SCENARIOS["healthy"]


def run(noise: float, seed: int, count: int = 5) -> list[tuple[float | None, float | None]]:
    """First and last token of `count` sequences that arrive together, on a replica that nothing slows."""
    replica = Replica(HEALTHY, noise, seed)
    sequences = [Sequence(100 * place + 10, 20) for place in range(count)]
    for sequence in sequences:
        replica.submit(sequence, 0.0)
    now_s = 0.0
    while not all(one.finished for one in sequences):
        end_s = replica.begin(now_s)
        if end_s is None:
            assert replica.next_arrival_s is not None
            now_s = replica.next_arrival_s
        else:
            replica.finish()
            now_s = end_s
    return [(one.first_token_s, one.last_token_s) for one in sequences]


def test_a_seed_repeats_a_run_exactly() -> None:
    assert run(0.02, 7) == run(0.02, 7)


def test_another_seed_makes_another_run() -> None:
    assert run(0.02, 7) != run(0.02, 8)


def test_without_noise_a_lone_request_costs_what_the_model_says() -> None:
    [(first_s, last_s)] = run(0.0, 1, count=1)
    assert first_s is not None and last_s is not None
    decode_s = sum(HEALTHY.cost.step_s(1, 10 + place, 1) for place in range(1, 20))
    assert last_s - first_s == pytest.approx(decode_s)


def test_a_request_waits_for_the_front_end_before_its_first_step() -> None:
    replica = Replica(HEALTHY, 0.0, 1)
    replica.submit(Sequence(10, 1), 5.0)
    assert replica.begin(5.0) is None
    arrival_s = replica.next_arrival_s
    assert arrival_s is not None and arrival_s > 5.0
    assert replica.begin(arrival_s) == pytest.approx(arrival_s + HEALTHY.cost.step_s(10, 10, 1))


def test_an_aborted_arrival_never_runs() -> None:
    replica = Replica(HEALTHY, 0.0, 1)
    sequence = Sequence(10, 1)
    replica.submit(sequence, 0.0)
    replica.abort(sequence)
    assert replica.begin(10.0) is None
    assert replica.next_arrival_s is None
