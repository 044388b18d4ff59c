"""Continuous batching: which sequences compute how many tokens in the next step. Knows no durations and no sockets.

Iteration-level scheduling with chunked prefill and preemption by recompute, in the order of vLLM's v1 scheduler:
running sequences first, oldest first; then waiting ones, first come first served, as far as tokens, seats and blocks
go.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from workers.simulator.kv_cache import PagedCache


@dataclass(frozen=True, slots=True)
class SchedulerLimits:
    """`max_batched_tokens` is the token budget of a step; a prompt that exceeds what is left of it is cut in chunks."""

    max_running: int
    max_batched_tokens: int


@dataclass(slots=True, eq=False)
class Sequence:
    """One request inside the engine. Times are the model's seconds, None: not yet; `gap_s`: between the last tokens."""

    prompt_tokens: int
    output_tokens: int
    arrived_s: float = 0.0
    queued_s: float | None = None
    started_s: float | None = None
    first_token_s: float | None = None
    last_token_s: float | None = None
    gap_s: float | None = None
    generated: int = 0
    computed: int = 0
    blocks: int = 0
    aborted: bool = False

    @property
    def finished(self) -> bool:
        return self.generated == self.output_tokens


@dataclass(slots=True)
class Step:
    """`work`: each sequence with how many tokens this step computes. `kv_tokens`: what all their contexts hold then."""

    work: list[tuple[Sequence, int]] = field(default_factory=list)
    tokens: int = 0
    kv_tokens: int = 0
    preemptions: int = 0

    def add(self, sequence: Sequence, tokens: int) -> None:
        self.work.append((sequence, tokens))
        self.tokens += tokens
        self.kv_tokens += sequence.computed + tokens


class Scheduler:
    """Call `schedule`, then `complete` with its step. A sequence must fit into the cache alone, or `add` refuses it."""

    def __init__(self, limits: SchedulerLimits, cache: PagedCache) -> None:
        self.limits = limits
        self.cache = cache
        self.running: list[Sequence] = []
        self.waiting: deque[Sequence] = deque()

    def add(self, sequence: Sequence, now_s: float) -> None:
        """Raises ValueError for a sequence that could never finish."""
        if sequence.prompt_tokens + sequence.output_tokens > self.cache.blocks * self.cache.block_tokens:
            raise ValueError("the sequence is longer than the whole KV cache")
        sequence.queued_s = now_s
        self.waiting.append(sequence)

    def abort(self, sequence: Sequence) -> None:
        """Frees what it holds, also in the middle of a step; a sequence that is not here is left alone."""
        sequence.aborted = True
        if sequence in self.running:
            self.running.remove(sequence)
        elif sequence in self.waiting:
            self.waiting.remove(sequence)
        self._release(sequence)

    def schedule(self, now_s: float) -> Step:
        """The next step; one without work when nothing is running or waiting."""
        step = Step()
        self._continue_running(step)
        if not step.preemptions:
            self._admit_waiting(step, now_s)
        return step

    def complete(self, step: Step, now_s: float) -> list[Sequence]:
        """The sequences that got a token: those whose every token so far is computed. Finished ones leave."""
        emitted = []
        left = False
        for sequence, tokens in step.work:
            if sequence.aborted:
                continue
            sequence.computed += tokens
            if sequence.computed < sequence.prompt_tokens + sequence.generated:
                continue
            sequence.generated += 1
            if sequence.last_token_s is None:
                sequence.first_token_s = now_s
            else:
                sequence.gap_s = now_s - sequence.last_token_s
            sequence.last_token_s = now_s
            emitted.append(sequence)
            if sequence.generated == sequence.output_tokens:
                self._release(sequence)
                left = True
        if left:
            self.running = [sequence for sequence in self.running if not sequence.finished]
        return emitted

    def _continue_running(self, step: Step) -> None:
        place = 0
        budget = self.limits.max_batched_tokens
        while place < len(self.running) and step.tokens < budget:
            sequence = self.running[place]
            tokens = sequence.prompt_tokens + sequence.generated - sequence.computed
            if tokens > budget - step.tokens:
                tokens = budget - step.tokens
            if not self._make_room(sequence, tokens, step):
                return
            step.add(sequence, tokens)
            place += 1

    def _make_room(self, sequence: Sequence, tokens: int, step: Step) -> bool:
        """Preempts the youngest until there is room; False when `sequence` itself had to go."""
        while not self._grow(sequence, tokens):
            youngest = self.running.pop()
            self._release(youngest)
            youngest.computed = 0
            self.waiting.appendleft(youngest)
            step.preemptions += 1
            if youngest is sequence:
                return False
        return True

    def _admit_waiting(self, step: Step, now_s: float) -> None:
        budget = self.limits.max_batched_tokens
        while self.waiting and step.tokens < budget and len(self.running) < self.limits.max_running:
            sequence = self.waiting[0]
            tokens = min(sequence.prompt_tokens + sequence.generated, budget - step.tokens)
            if not self._grow(sequence, tokens):
                return
            self.waiting.popleft()
            self.running.append(sequence)
            if sequence.started_s is None:
                sequence.started_s = now_s
            step.add(sequence, tokens)

    def _grow(self, sequence: Sequence, tokens: int) -> bool:
        held = self.cache.grow(sequence.blocks, sequence.computed + tokens)
        if held is None:
            return False
        sequence.blocks = held
        return True

    def _release(self, sequence: Sequence) -> None:
        self.cache.release(sequence.blocks)
        sequence.blocks = 0
