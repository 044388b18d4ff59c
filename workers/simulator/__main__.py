"""`python -m workers.simulator --scenario NAME --port P`: the simulated engine; `--truth` prints what it must measure.

Exit codes: 0 it was told to stop (or has printed what was asked), 1 it cannot listen, 2 the arguments are wrong.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from typing import TypeVar

import msgspec
import uvloop

from workers.simulator.engine import Engine
from workers.simulator.mixes import MixError, read_mix
from workers.simulator.scenarios import SCENARIOS
from workers.simulator.server import Server
from workers.simulator.truth import find_truth, truth_document

PARENT_POLL_S = 0.5
_KEY_VARIABLE = "BRIMLINE_SIM_API_KEY"
Number = TypeVar("Number", int, float)


def main(arguments: list[str] | None = None) -> int:
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.list:
        for scenario in SCENARIOS.values():
            print(f"{scenario.name}: {scenario.description}")
        return 0
    if options.truth:
        try:
            mix = read_mix(options.mix)
        except MixError as error:
            parser.error(str(error))
        scenario = SCENARIOS[options.scenario]
        truth = find_truth(scenario, mix, options.ladder, options.noise, options.seed)
        print(msgspec.json.format(msgspec.json.encode(truth_document(scenario, mix, truth))).decode())
        return 0
    # Asked before anything is said: whoever reads that it listens may end at once.
    return uvloop.run(_serve(options, os.getppid()))


async def _serve(options: argparse.Namespace, parent: int) -> int:
    scenario = SCENARIOS[options.scenario]
    engine = Engine(scenario, options.model, options.time_scale, options.noise, options.seed)
    server = Server(engine, scenario, options.model, options.api_key, options.seed)
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    try:
        port = await server.listen(options.host, options.port)
    except OSError as error:
        print(
            f"Cannot listen on {options.host}:{options.port}: {error.strerror}. --port 0 takes a free one.",
            file=sys.stderr,
        )
        return 1
    host = f"[{options.host}]" if ":" in options.host else options.host
    print(f"listening on http://{host}:{port}", flush=True)
    watching = asyncio.create_task(_watch_parent(stopped, parent)) if options.stop_with_parent else None
    await stopped.wait()
    if watching is not None:
        watching.cancel()
    server.close()
    engine.close()
    return 0


async def _watch_parent(stopped: asyncio.Event, parent: int) -> None:
    while os.getppid() == parent:
        await asyncio.sleep(PARENT_POLL_S)
    stopped.set()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m workers.simulator", description="A simulated LLM engine: OpenAI's API and vLLM's metrics."
    )
    add = parser.add_argument
    add("--scenario", choices=SCENARIOS, default="healthy", metavar="NAME", help="default: %(default)s")
    add("--list", action="store_true", help="name the scenarios, and end")
    add("--host", default="127.0.0.1", help="default: %(default)s")
    add("--port", type=_port, default=8100, help="0 takes a free one (default: %(default)s)")
    add("--model", default="sim-8b", help="the model's name (default: %(default)s)")
    add("--api-key", default=os.environ.get(_KEY_VARIABLE) or None, help=f"ask for this key (or set {_KEY_VARIABLE})")
    add("--time-scale", type=_above_0, default=1.0, metavar="S", help="run S times as fast (default: %(default)g)")
    add("--noise", type=_noise, default=0.02, metavar="SHARE", help="of a step's time (default: %(default)g)")
    add("--seed", type=int, default=1, help="default: %(default)s")
    add("--stop-with-parent", action="store_true", help="end when the parent process does")
    add("--truth", action="store_true", help="print what a campaign must find, as JSON, and end")
    add("--mix", default="default", metavar="MIX", help="for --truth: default, small, or JSON (default: %(default)s)")
    add("--ladder", type=_ladder, default=[1, 2, 4, 8, 16, 32], metavar="N,N,…", help="for --truth: concurrencies")
    return parser


def _port(text: str) -> int:
    return _number(int, text, 0, 65535, "a port from 0 to 65535")


def _above_0(text: str) -> float:
    return _number(float, text, 1e-3, 1e3, "a number from 0.001 to 1000")


def _noise(text: str) -> float:
    return _number(float, text, 0, 0.2, "a share from 0 to 0.2")


def _ladder(text: str) -> list[int]:
    return [_number(int, part, 1, 4096, "whole numbers from 1 to 4096 with commas") for part in text.split(",")]


def _number(kind: type[Number], text: str, low: float, high: float, words: str) -> Number:
    try:
        value = kind(text)
    except ValueError:
        value = None
    if value is None or not low <= value <= high:
        raise argparse.ArgumentTypeError(f"takes {words}, not {text!r}")
    return value


if __name__ == "__main__":
    sys.exit(main())
