"""`python -m workers.loadgen PLAN.json --out DIR`: one stage of load; progress and the summary as JSON lines.

Exit codes: 0 the stage ran (failures of requests are data), 2 the plan is wrong, 3 nothing could be sent.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import monotonic_ns

import pyarrow as pa
import uvloop

from workers.loadgen.crew import START_DELAY_NS, Crew, PartFailed, run_as_part
from workers.loadgen.output import EventWriter
from workers.loadgen.plan import Plan, PlanError, read_plan
from workers.loadgen.priority import go_first, keep_apart
from workers.loadgen.progress import Phase, ProgressLine, Tick
from workers.loadgen.report import PartFacts, nothing_sent, write_stage
from workers.loadgen.setup import facts_of, make_part
from workers.loadgen.stage import Share, StagePart

PARENT_POLL_S = 0.5


def main(arguments: list[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    share = Share(*(int(number) for number in options.part.split("/")))
    try:
        plan = read_plan(options.plan)
        # A parent that only leads makes a part too: what is wrong shows before any other process is started.
        own = Share(0, plan.processes) if share.parts == 1 else share
        part = make_part(plan, options.plan.parent, own, os.environ)
        make_room(options.out)
    except PlanError as error:
        print(f"The plan cannot be run:\n{error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"--out {options.out} cannot be used: {error.strerror}", file=sys.stderr)
        return 2
    go_first()
    events = EventWriter()
    try:
        if share.parts > 1:
            keep_apart(share.part, share.parts)
            uvloop.run(_run_part(part, share, options.out, events))
            return 0
        return uvloop.run(_run_stage(plan, part, options, events))
    except PartFailed as error:
        print(error, file=sys.stderr)
        return 1
    finally:
        events.close()


def make_room(directory: Path) -> None:
    """Nothing of an earlier stage stays, and what cannot be written shows before the load. Raises OSError."""
    directory.mkdir(parents=True, exist_ok=True)
    for name in ("summary.json", "requests.arrow"):
        (directory / name).write_bytes(b"")
        (directory / name).unlink()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m workers.loadgen", description="Run one stage of load.")
    parser.add_argument("plan", type=Path, metavar="PLAN.json")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="for summary.json and requests.arrow")
    parser.add_argument("--stop-with-parent", action="store_true", help="end when the parent process does")
    # How a stage of several processes calls itself.
    parser.add_argument("--part", default="0/1", help=argparse.SUPPRESS)
    return parser


async def _run_stage(plan: Plan, part: StagePart, options: argparse.Namespace, events: EventWriter) -> int:
    line = ProgressLine()
    started_at = datetime.now(UTC)

    def on_start(start_ns: int) -> None:
        nonlocal started_at
        started_at = datetime.now(UTC) + timedelta(microseconds=(start_ns - monotonic_ns()) / 1000)
        events.put({"event": "started", "started_at": started_at.isoformat(timespec="milliseconds")})

    def on_tick(tick: Tick, phase: Phase, t_s: float) -> None:
        events.put(line.event(tick, phase, t_s))

    if plan.processes > 1:
        crew = Crew(plan, options.plan, options.out)
        with_parent = _obey_signals(crew.cancel, options.stop_with_parent)
        table, facts = await crew.run(on_start, on_tick)
    else:
        with_parent = _obey_signals(part.cancel, options.stop_with_parent)
        table, facts = await _run_alone(part, on_start, on_tick)
    with_parent.cancel()
    summary = write_stage(plan, table, facts, started_at, options.out)
    events.put({"event": "summary"} | summary)
    return 3 if nothing_sent(summary) else 0


async def _run_alone(
    part: StagePart, on_start: Callable[[int], None], on_tick: Callable[[Tick, Phase, float], None]
) -> tuple[pa.Table, list[PartFacts]]:
    await part.prepare()
    start_ns = monotonic_ns() + START_DELAY_NS
    on_start(start_ns)
    table, window = await part.run(start_ns, on_tick, None)
    return table, [facts_of(part, window, part.ended_s)]


async def _run_part(part: StagePart, share: Share, directory: Path, events: EventWriter) -> None:
    # Ctrl-C reaches the whole group: the parent decides, and tells.
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, lambda: None)
    await run_as_part(part, share, directory, events)


def _obey_signals(cancel: Callable[[], None], stop_with_parent: bool) -> asyncio.Task[None]:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, cancel)
    return loop.create_task(_watch_parent(cancel, os.getppid()) if stop_with_parent else _nothing())


async def _watch_parent(cancel: Callable[[], None], parent: int) -> None:
    while os.getppid() == parent:
        await asyncio.sleep(PARENT_POLL_S)
    cancel()


async def _nothing() -> None:
    return


if __name__ == "__main__":
    sys.exit(main())
