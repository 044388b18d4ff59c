"""Several processes for one stage: the parent starts them at one time, adds up their progress and merges raw rows.

Parent and part talk in JSON lines. Part to parent: `Ready`, `Ticked` each second, `CohortEnded`, `Done`. Parent to
part: `Start`, `Release` (every part's measured requests have ended), `Cancel`; the end of its input means Cancel too.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from time import monotonic_ns
from typing import Any, TypeAlias

import msgspec
import pyarrow as pa

from workers.loadgen.log import read_log, write_table
from workers.loadgen.output import EventWriter
from workers.loadgen.plan import Plan
from workers.loadgen.progress import Phase, Tick, merge
from workers.loadgen.records import ordered
from workers.loadgen.report import PartFacts
from workers.loadgen.setup import facts_of
from workers.loadgen.stage import Share, StagePart

# Between the order to start and the start: longer than the order takes to reach the last part.
START_DELAY_NS = 100_000_000
_LINE_BYTES_MAX = 1 << 26


class Ready(msgspec.Struct, tag=True):
    pass


class Ticked(msgspec.Struct, tag=True):
    tick: Tick
    phase: Phase
    t_s: float


class CohortEnded(msgspec.Struct, tag=True):
    pass


class Done(msgspec.Struct, tag=True):
    facts: PartFacts


class Start(msgspec.Struct, tag=True):
    start_ns: int


class Release(msgspec.Struct, tag=True):
    pass


class Cancel(msgspec.Struct, tag=True):
    pass


FromPart: TypeAlias = Ready | Ticked | CohortEnded | Done
ToPart: TypeAlias = Start | Release | Cancel
_from_part = msgspec.json.Decoder(FromPart)
_to_part = msgspec.json.Decoder(ToPart)


class PartFailed(Exception):
    """A process of the stage ended without its result."""


class Crew:
    """The parent's side. `cancel` may be called at any time."""

    def __init__(self, plan: Plan, plan_path: Path, directory: Path) -> None:
        self._plan = plan
        self._plan_path = plan_path
        self._directory = directory
        self._members: list[_Member] = []
        self._cancelled = False

    async def run(
        self, on_start: Callable[[int], None], on_tick: Callable[[Tick, Phase, float], None]
    ) -> tuple[pa.Table, list[PartFacts]]:
        """All requests and each part's facts. Raises PartFailed."""
        count = self._plan.processes
        stage = Share().stage
        shares = [Share(part, count, stage) for part in range(count)]
        self._members = [await _Member.spawn(self, self._plan_path, self._directory, share) for share in shares]
        self._on_start, self._on_tick = on_start, on_tick
        if self._cancelled:
            self.cancel()
        try:
            await asyncio.gather(*(member.listen() for member in self._members))
        finally:
            for member in self._members:
                member.end()
        tables = [member.take_table() for member in self._members]
        facts = [member.facts for member in self._members if member.facts is not None]
        return ordered(pa.concat_tables(tables).unify_dictionaries().combine_chunks()), facts

    def cancel(self) -> None:
        self._cancelled = True
        for member in self._members:
            member.tell(Cancel())

    def progressed(self) -> None:
        """Some member said something: do what waits for all of them."""
        members = self._members
        if all(member.ready for member in members):
            start_ns = monotonic_ns() + START_DELAY_NS
            for member in members:
                member.ready = False
                member.tell(Start(start_ns))
            self._on_start(start_ns)
        if all(member.ticked is not None or member.facts is not None for member in members):
            latest = [member.ticked for member in members if member.ticked is not None]
            if latest:
                self._on_tick(merge([member.last_tick for member in members]), latest[0].phase, latest[0].t_s)
            for member in members:
                member.forget_tick()
        if all(member.cohort_ended or member.facts is not None for member in members):
            for member in members:
                member.cohort_ended = False
                member.tell(Release())


class _Member:
    """One process as the parent sees it."""

    def __init__(self, crew: Crew, process: asyncio.subprocess.Process, table_path: Path) -> None:
        self.ready = False
        self.cohort_ended = False
        self.ticked: Ticked | None = None
        self.last_tick = Tick()
        self.facts: PartFacts | None = None
        self._crew = crew
        self._process = process
        self._table_path = table_path

    @classmethod
    async def spawn(cls, crew: Crew, plan_path: Path, directory: Path, share: Share) -> _Member:
        part = f"{share.part}/{share.parts}/{share.stage}"
        arguments = ["-m", "workers.loadgen", str(plan_path), "--out", str(directory), "--part", part]
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=_LINE_BYTES_MAX,
        )
        return cls(crew, process, part_table(directory, share.part))

    async def listen(self) -> None:
        """Until the part is done. Raises PartFailed."""
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            message = _from_part.decode(line)
            match message:
                case Ready():
                    self.ready = True
                case Ticked():
                    self.ticked, self.last_tick = message, message.tick
                case CohortEnded():
                    self.cohort_ended = True
                case Done():
                    self.facts = message.facts
            self._crew.progressed()
        code = await self._process.wait()
        if self.facts is None:
            raise PartFailed(f"a process of the stage ended with exit code {code} before its result")

    def tell(self, message: ToPart) -> None:
        if self._process.returncode is None and self._process.stdin is not None:
            self._process.stdin.write(msgspec.json.encode(message) + b"\n")

    def forget_tick(self) -> None:
        """Its counts stay; its latencies belonged to one second."""
        self.ticked = None
        self.last_tick = msgspec.structs.replace(self.last_tick, ttft_ms=[], tpot_ms=[])

    def take_table(self) -> pa.Table:
        table = read_log(self._table_path)
        self._table_path.unlink()
        return table

    def end(self) -> None:
        """After the stage, or after the failure of another part."""
        if self._process.returncode is None:
            self._process.kill()


def part_table(directory: Path, part: int) -> Path:
    return directory / f".part-{part}.arrow"


async def run_as_part(part: StagePart, share: Share, directory: Path, events: EventWriter) -> None:
    """The part's side: leaves its rows in `part_table` and speaks through standard input and output."""
    started: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    released = asyncio.Event()
    listening = asyncio.create_task(_obey(part, started, released))
    await part.prepare()
    events.put(Ready())
    start_ns = await started

    def on_tick(tick: Tick, phase: Phase, t_s: float) -> None:
        events.put(Ticked(tick, phase, t_s))

    async def hold() -> None:
        events.put(CohortEnded())
        await released.wait()

    table, window = await part.run(start_ns, on_tick, hold)
    write_table(table, part_table(directory, share.part))
    events.put(Done(facts_of(part, window, part.ended_s)))
    listening.cancel()


async def _obey(part: StagePart, started: asyncio.Future[int], released: asyncio.Event) -> None:
    orders = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(orders), sys.stdin)
    async for line in orders:
        order: Any = _to_part.decode(line)
        match order:
            case Start():
                started.set_result(order.start_ns)
            case Release():
                released.set()
            case Cancel():
                break
    part.cancel()
    if not started.done():
        started.set_result(monotonic_ns())
