"""Reads a file row by row: its lines, or the items of one JSON list. Gathers what is wrong with them, by their numbers.

Does not know what a row means.
"""

from __future__ import annotations

import os
from codecs import BOM_UTF8
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias, TypeVar

import msgspec

from workers.loadgen.checking import Problems

FILE_BYTES_MAX = 1 << 30
ROWS_MAX = 1_000_000
_PROBLEMS_A_FILE = 5

T = TypeVar("T")
# Null where a row says nothing. Raises ValueError or one of msgspec's errors, in words.
Parse: TypeAlias = Callable[[bytes], T | None]


def read_rows(file: Path, path: str, problems: Problems, choose: Callable[[bytes], Parse[T]]) -> list[T]:
    """What the function that `choose` finds for the first row makes of all rows. `path` is the plan's key of the file.

    `choose` raises ValueError in words that go on after the file's name. Keeps of the file only what is made of it,
    but reads a JSON list whole.
    """
    found: list[T] = []
    wrong: list[str] = []
    parse: Parse[T] | None = None
    try:
        for number, (place, row) in enumerate(_rows(file), 1):
            if number > ROWS_MAX:
                raise ValueError(f"has more than {ROWS_MAX} rows; keep a part of it")
            parse = parse or choose(row)
            try:
                made = parse(row)
            except (msgspec.MsgspecError, ValueError, RecursionError) as error:
                wrong.append(f"{place}: {error}")
                continue
            if made is not None:
                found.append(made)
    except OSError as error:
        problems.add(path, f"the file {file} cannot be read: {error.strerror}")
    except ValueError as error:
        problems.add(path, f"the file {file} {error}")
    else:
        for message in wrong[:_PROBLEMS_A_FILE]:
            problems.add(path, message)
        if len(wrong) > _PROBLEMS_A_FILE:
            problems.add(path, f"{len(wrong) - _PROBLEMS_A_FILE} more rows are wrong")
        if not found and not wrong:
            problems.add(path, f"the file {file} holds nothing to send")
    return found


def _rows(file: Path) -> Iterator[tuple[str, bytes]]:
    """("line 3", its bytes), blank ones left out; of a list ("item 3", its JSON). Raises OSError and ValueError."""
    with file.open("rb") as stream:
        if os.fstat(stream.fileno()).st_size > FILE_BYTES_MAX:
            raise ValueError(f"is larger than {FILE_BYTES_MAX >> 30} GiB; keep a part of it")
        begin = len(BOM_UTF8) if stream.read(len(BOM_UTF8)) == BOM_UTF8 else 0
        stream.seek(begin)
        while (first := stream.read(1)).isspace():
            pass
        stream.seek(begin)
        if first == b"[":
            yield from _items(stream.read())
            return
        for number, line in enumerate(stream, 1):
            if row := line.strip():
                yield f"line {number}", row


def _items(data: bytes) -> Iterator[tuple[str, bytes]]:
    try:
        # Views of `data`, not copies.
        items = msgspec.json.decode(data, type=list[msgspec.Raw])
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ValueError(f"begins like a JSON list but is none: {error}") from None
    for number, item in enumerate(items, 1):
        yield f"item {number}", bytes(item)
