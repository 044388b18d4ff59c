"""Reads files of prompts: JSON Lines, one `{"prompt" | "messages" | "turns", "max_tokens"}` a line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from workers.loadgen.checking import Problem, Problems
from workers.loadgen.plan import Plan, PlanError

_PROBLEMS_A_FILE = 5


class FilePrompt(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=False):
    """One line; exactly one of `prompt`, `messages` and `turns`, a user's turns of a conversation, is given."""

    prompt: str | None = None
    messages: list[dict[str, Any]] | None = None
    turns: list[str] | None = None
    max_tokens: int | None = None


def read_prompt_files(plan: Plan, directory: Path) -> dict[int, list[FilePrompt]]:
    """{class index: its prompts}; a relative file name is looked up in `directory`. Raises PlanError."""
    problems = Problems()
    prompts: dict[int, list[FilePrompt]] = {}
    for place, one in enumerate(plan.mix.classes):
        if one.prompts is not None:
            path = f"mix.classes[{place}].prompts"
            try:
                lines = (directory / one.prompts).read_bytes().splitlines()
            except OSError as error:
                problems.add(path, f"the file {one.prompts} cannot be read: {error.strerror}")
                continue
            prompts[place] = _parse(lines, plan.protocol, path, problems)
    if problems:
        raise PlanError(problems)
    return prompts


def _parse(lines: list[bytes], protocol: str, path: str, problems: Problems) -> list[FilePrompt]:
    prompts: list[FilePrompt] = []
    wrong: list[Problem] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            prompt = msgspec.json.decode(line, type=FilePrompt)
        except (msgspec.MsgspecError, UnicodeError) as error:
            wrong.append(Problem(path, f"line {number}: {error}"))
            continue
        if [prompt.prompt is not None, bool(prompt.messages), bool(prompt.turns)].count(True) != 1:
            wrong.append(Problem(path, f"line {number} must have exactly one of prompt, messages and turns"))
        elif prompt.messages and protocol != "openai-chat":
            wrong.append(Problem(path, f"line {number} has messages, which need the protocol openai-chat"))
        elif prompt.max_tokens is not None and prompt.max_tokens < 1:
            wrong.append(Problem(path, f"line {number}: max_tokens must be at least 1"))
        else:
            prompts.append(prompt)
    problems.extend(wrong[:_PROBLEMS_A_FILE])
    if len(wrong) > _PROBLEMS_A_FILE:
        problems.add(path, f"{len(wrong) - _PROBLEMS_A_FILE} more lines are wrong")
    if not prompts and not wrong:
        problems.add(path, "the file holds no prompt")
    return prompts
