"""Reads the files of prompts that a mix names. Tells by content what a file holds: prompts, or a trace of requests."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TypeAlias

from workers.loadgen.checking import Problems
from workers.loadgen.file_rows import Parse, read_rows
from workers.loadgen.plan import Plan, PlanError, TrafficClass
from workers.loadgen.prompt_rows import CountAnswers, FilePrompt, prompt_parser
from workers.loadgen.traces import TraceRow, trace_parser

# English has about four tokens in three words (OpenAI's rule of thumb).
_TOKENS_A_WORD = 4 / 3

FileRow: TypeAlias = FilePrompt | TraceRow
CountTokens: TypeAlias = Callable[[Sequence[str]], list[int]]


def read_prompt_files(plan: Plan, directory: Path, count: CountTokens | None = None) -> dict[int, list[FileRow]]:
    """{class index: its prompts, of one kind, in the file's order; a trace's by time}. Relative names are looked up in
    `directory`; `count` is a tokenizer's. Raises PlanError.
    """
    problems = Problems()
    files: dict[int, list[FileRow]] = {}
    for place, one in enumerate(plan.mix.classes):
        if one.prompts is not None:
            parse_prompt = prompt_parser(plan.protocol == "openai-chat", _answer_counter(one, count))
            choose = partial(_choose, parse_prompt)
            rows: list[FileRow] = read_rows(directory / one.prompts, f"mix.classes[{place}].prompts", problems, choose)
            rows.sort(key=lambda row: row.at_s if isinstance(row, TraceRow) else 0.0)
            files[place] = rows
    if problems:
        raise PlanError(problems)
    return files


def _choose(parse_prompt: Parse[FilePrompt], first: bytes) -> Parse[FileRow]:
    parse = trace_parser(first)
    if parse is None and not first.startswith(b"{"):
        raise ValueError(
            "is no file of prompts: it must hold JSON objects, one a line or all in a list, or Azure's CSV"
        )
    return parse or parse_prompt


def _answer_counter(one: TrafficClass, count: CountTokens | None) -> CountAnswers:
    """How long the answers of a recorded conversation may get."""
    if count is not None:
        return lambda answers: [tokens or None for tokens in count(answers)]
    if one.output_tokens is not None:
        return lambda answers: [None] * len(answers)
    return lambda answers: [math.ceil(len(answer.split()) * _TOKENS_A_WORD) or None for answer in answers]
