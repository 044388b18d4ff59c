"""Reads traces of requests: when each came, how long it was, and which blocks of text it shared with others.

Two kinds are known: Mooncake's JSON Lines and the CSV of Azure's LLM inference traces (2023 and 2024).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from workers.loadgen.checking import Problems, shown
from workers.loadgen.file_rows import Parse, read_rows
from workers.loadgen.lengths import TOKENS_MAX, Tokens
from workers.loadgen.plan import OpenLoad, Plan, PlanError

# What one of Mooncake's hash ids stands for (arXiv 2407.00079, and the README of its traces).
BLOCK_TOKENS = 512
_AZURE_COLUMNS = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")


class TraceRow(msgspec.Struct, frozen=True, gc=False):
    """One request. Times count from anywhere. The same id in `block_ids` is the same text; empty: nothing is known."""

    at_s: float
    input_tokens: int
    output_tokens: int
    block_ids: tuple[int, ...] = ()


class _Mooncake(msgspec.Struct):
    timestamp: float
    input_length: Tokens
    output_length: Tokens
    hash_ids: tuple[int, ...] = ()


_decode_mooncake = msgspec.json.Decoder(_Mooncake).decode


def trace_parser(first: bytes) -> Parse[TraceRow] | None:
    """How to read the rows of a trace whose first row this is; null where it is none."""
    if first.startswith(b"{"):
        try:
            keys = msgspec.json.decode(first, type=dict[str, msgspec.Raw]).keys()
        except (msgspec.MsgspecError, ValueError, RecursionError):
            return None
        return _read_mooncake if {"input_length", "output_length", "hash_ids"} & keys else None
    columns = [name.strip() for name in first.decode("utf-8", "replace").split(",")]
    return _azure_reader(first, columns) if set(_AZURE_COLUMNS) <= set(columns) else None


def read_arrivals(plan: Plan, directory: Path) -> list[float]:
    """Seconds from the first arrival of the load's trace on, in order; empty without a trace. Raises PlanError."""
    if not isinstance(plan.load, OpenLoad) or plan.load.trace is None:
        return []
    problems = Problems()
    times = sorted(read_rows(directory / plan.load.trace, "load.trace", problems, _times_parser))
    if problems:
        raise PlanError(problems)
    return [one - times[0] for one in times]


def _times_parser(first: bytes) -> Parse[float]:
    parse = trace_parser(first)
    if parse is None:
        return _read_seconds

    def read_time(row: bytes) -> float | None:
        read = parse(row)
        return None if read is None else read.at_s

    return read_time


def _read_seconds(row: bytes) -> float:
    try:
        seconds = float(row)
    except ValueError:
        seconds = math.nan
    if not math.isfinite(seconds):
        raise ValueError(f"must be a number of seconds, or the file a trace, not {_text(row)}")
    return seconds


def _read_mooncake(row: bytes) -> TraceRow:
    read = _decode_mooncake(row)
    blocks = math.ceil(read.input_length / BLOCK_TOKENS)
    if read.hash_ids and len(read.hash_ids) != blocks:
        words = f"input_length {read.input_length} takes {blocks} of {BLOCK_TOKENS} tokens"
        raise ValueError(f"hash_ids names {len(read.hash_ids)} blocks, but {words}")
    return TraceRow(read.timestamp / 1000, read.input_length, read.output_length, read.hash_ids)


def _azure_reader(header: bytes, columns: list[str]) -> Callable[[bytes], TraceRow | None]:
    time_at, context_at, generated_at = (columns.index(name) for name in _AZURE_COLUMNS)

    def read(row: bytes) -> TraceRow | None:
        if row == header:
            return None
        fields = row.decode().split(",")
        if len(fields) != len(columns):
            raise ValueError(f"must have {len(columns)} fields, not {len(fields)}")
        return TraceRow(
            _azure_time(fields[time_at]),
            _azure_tokens("ContextTokens", fields[context_at]),
            _azure_tokens("GeneratedTokens", fields[generated_at]),
        )

    return read


def _azure_time(text: str) -> float:
    """2023: `2023-11-16 18:17:03.9799600`; 2024: `2024-05-10 00:00:00.009930+00:00`, a fraction of 0 left out."""
    try:
        time = datetime.fromisoformat(text.strip())
    except ValueError:
        raise ValueError(f"TIMESTAMP must be a time like 2023-11-16 18:17:03.97996, not {shown(text)}") from None
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()


def _azure_tokens(name: str, text: str) -> int:
    if text.strip().isdecimal() and 1 <= int(text) <= TOKENS_MAX:
        return int(text)
    raise ValueError(f"{name} must be a whole number of tokens, 1 to {TOKENS_MAX}, not {shown(text)}")


def _text(row: bytes) -> str:
    return shown(row.decode("utf-8", "replace"))
