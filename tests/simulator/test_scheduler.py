from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.simulator.kv_cache import PagedCache
from workers.simulator.scheduler import Scheduler, SchedulerLimits, Sequence, Step

BLOCK_TOKENS = 4
BLOCKS = 16
LIMITS = SchedulerLimits(max_running=4, max_batched_tokens=16)
LENGTHS = st.tuples(st.integers(1, 40), st.integers(1, 24))


def make_scheduler(limits: SchedulerLimits = LIMITS, blocks: int = BLOCKS) -> Scheduler:
    return Scheduler(limits, PagedCache(blocks, BLOCK_TOKENS))


def steps_of(scheduler: Scheduler) -> Iterator[tuple[Step, list[Sequence]]]:
    """Until nothing is left to do; step n begins at n seconds and ends at n + 1."""
    for number in range(100_000):
        step = scheduler.schedule(float(number))
        if not step.work:
            return
        yield step, scheduler.complete(step, number + 1.0)
    pytest.fail("the scheduler never came to an end")


def check(scheduler: Scheduler, step: Step) -> None:
    assert 0 < step.tokens == sum(tokens for _, tokens in step.work) <= scheduler.limits.max_batched_tokens
    assert len(scheduler.running) <= scheduler.limits.max_running
    assert scheduler.cache.free >= 0
    assert scheduler.cache.free + sum(one.blocks for one in scheduler.running) == scheduler.cache.blocks
    assert not any(one.blocks for one in scheduler.waiting)


@given(st.lists(LENGTHS, max_size=12))
def test_every_sequence_gets_exactly_its_tokens_and_leaves_nothing(lengths: list[tuple[int, int]]) -> None:
    scheduler = make_scheduler()
    sequences = [Sequence(prompt, output) for prompt, output in lengths]
    for sequence in sequences:
        scheduler.add(sequence, 0.0)
    tokens = 0
    for step, emitted in steps_of(scheduler):
        check(scheduler, step)
        tokens += len(emitted)
    assert all(one.finished for one in sequences)
    assert tokens == sum(output for _, output in lengths)
    assert scheduler.cache.free == scheduler.cache.blocks
    assert not scheduler.running and not scheduler.waiting


@given(st.lists(LENGTHS, min_size=1, max_size=12), st.data())
def test_an_abort_at_any_time_frees_and_harms_nobody(lengths: list[tuple[int, int]], data: st.DataObject) -> None:
    scheduler = make_scheduler()
    sequences = [Sequence(prompt, output) for prompt, output in lengths]
    for sequence in sequences:
        scheduler.add(sequence, 0.0)
    doomed = data.draw(st.sets(st.sampled_from(range(len(sequences)))))
    at = {number: data.draw(st.integers(0, 30)) for number in doomed}
    for clock in range(100_000):
        step = scheduler.schedule(float(clock))
        if not step.work:
            break
        check(scheduler, step)
        # In the middle of the step, as a client goes.
        for number in doomed:
            if at[number] == clock:
                scheduler.abort(sequences[number])
        assert not any(one.aborted for one in scheduler.complete(step, clock + 1.0))
    assert all(one.finished or one.aborted for one in sequences)
    assert all(sequences[number].finished for number in range(len(sequences)) if number not in doomed)
    assert scheduler.cache.free == scheduler.cache.blocks


def test_first_come_is_first_served() -> None:
    scheduler = make_scheduler(SchedulerLimits(max_running=2, max_batched_tokens=16))
    sequences = [Sequence(5, 3) for _ in range(6)]
    for sequence in sequences:
        scheduler.add(sequence, 0.0)
    list(steps_of(scheduler))
    started = [one.started_s for one in sequences]
    assert started == sorted(started, key=lambda value: value or 0.0)
    assert len(set(started)) == 3


def test_a_long_prompt_is_cut_to_the_budget_and_others_decode_beside_it() -> None:
    scheduler = make_scheduler(SchedulerLimits(max_running=4, max_batched_tokens=8))
    decoding, long = Sequence(4, 6), Sequence(20, 1)
    scheduler.add(decoding, 0.0)
    scheduler.complete(scheduler.schedule(0.0), 1.0)
    scheduler.add(long, 1.0)
    work = [[tokens for _, tokens in step.work] for step, _ in steps_of(scheduler)]
    assert work == [[1, 7], [1, 7], [1, 6], [1], [1]]
    assert long.first_token_s == 3.0


def test_the_youngest_is_preempted_and_computes_everything_again() -> None:
    scheduler = make_scheduler(blocks=4)
    old, young = Sequence(8, 8), Sequence(8, 8)
    scheduler.add(old, 0.0)
    scheduler.add(young, 0.0)
    steps = list(steps_of(scheduler))
    assert sum(step.preemptions for step, _ in steps) == 1
    # Eight tokens of its prompt and the one generated token whose successor found no block.
    recomputed = [tokens for step, _ in steps for one, tokens in step.work if one is young and tokens > 1]
    assert recomputed == [8, 9]
    assert old.last_token_s is not None and young.last_token_s is not None and old.last_token_s < young.last_token_s
    assert young.generated == 8


def test_what_can_never_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="longer than the whole KV cache"):
        make_scheduler().add(Sequence(BLOCKS * BLOCK_TOKENS, 1), 0.0)


def test_tokens_carry_their_times() -> None:
    scheduler = make_scheduler()
    sequence = Sequence(4, 3)
    scheduler.add(sequence, 0.0)
    list(steps_of(scheduler))
    assert (sequence.queued_s, sequence.started_s) == (0.0, 0.0)
    assert (sequence.first_token_s, sequence.last_token_s, sequence.gap_s) == (1.0, 3.0, 1.0)
