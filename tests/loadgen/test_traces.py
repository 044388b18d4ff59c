"""Traces of requests: as prompts, which share what the traced ones shared, and as arrival times."""

import json
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.loadgen import vocabularies
from tests.loadgen.program import plan_for, run
from tests.loadgen.server import Behaviour, Seen, Server
from tests.loadgen.test_plan import changed
from workers.loadgen.arrivals import open_arrivals_s
from workers.loadgen.calibration import Calibrator
from workers.loadgen.deal import deal
from workers.loadgen.plan import OpenLoad, Plan, PlanError, parse_plan
from workers.loadgen.prompt_files import read_prompt_files
from workers.loadgen.prompts import Prepared, PromptMaker
from workers.loadgen.tokens import Tokens
from workers.loadgen.traces import TraceRow, read_arrivals

# Lines of the published traces, and their line ends.
MOONCAKE = b"""\
{"timestamp": 27482, "input_length": 955, "output_length": 52, "hash_ids": [46, 47]}
{"timestamp": 30535, "input_length": 1472, "output_length": 26, "hash_ids": [46, 47, 2366]}
{"timestamp": 33000, "input_length": 600, "output_length": 9}
"""
AZURE_2023 = b"""\
TIMESTAMP,ContextTokens,GeneratedTokens\r
2023-11-16 18:17:03.9799600,4808,10\r
2023-11-16 18:17:04.0319600,3180,8"""
AZURE_2024 = b"""\
TIMESTAMP,ContextTokens,GeneratedTokens
2024-05-12 00:00:00.001163+00:00,2162,5
2024-05-12 00:00:00+00:00,76,15
"""


def plan_of(data: bytes, directory: Path, **changes: Any) -> Plan:
    """Its prompts and its arrivals are the file's."""
    (directory / "trace").write_bytes(data)
    load = {"kind": "open", "arrivals": "trace", "trace": "trace"}
    mixed = {"classes": [{"name": "t", "prompts": "trace"}]}
    return parse_plan(changed(load=load, mix=mixed) | changes)


def rows_of(data: bytes, directory: Path) -> Sequence[Any]:
    return read_prompt_files(plan_of(data, directory), directory)[0]


def prompts_of(maker: PromptMaker, plan: Plan, take: int) -> list[Prepared]:
    return [maker.make(dealt) for dealt in islice(deal(plan.mix, plan.seed), take)]


def text_of(prepared: Prepared) -> str:
    return str(json.loads(prepared.body)["prompt"])


def test_mooncakes_lines_are_read(tmp_path: Path) -> None:
    assert rows_of(MOONCAKE, tmp_path) == [
        TraceRow(27.482, 955, 52, (46, 47)),
        TraceRow(30.535, 1472, 26, (46, 47, 2366)),
        TraceRow(33.0, 600, 9),
    ]
    assert read_arrivals(plan_of(MOONCAKE, tmp_path), tmp_path) == pytest.approx([0, 3.053, 5.518])


def test_azures_times_of_both_years_are_read(tmp_path: Path) -> None:
    rows = rows_of(AZURE_2023, tmp_path)
    assert [(row.input_tokens, row.output_tokens) for row in rows] == [(4808, 10), (3180, 8)]
    assert rows[0].at_s == pytest.approx(1700158623.97996, abs=1e-6)
    assert read_arrivals(plan_of(AZURE_2023, tmp_path), tmp_path) == pytest.approx([0, 0.052], abs=1e-6)
    # In the order of their times.
    assert [row.input_tokens for row in rows_of(AZURE_2024, tmp_path)] == [76, 2162]
    assert read_arrivals(plan_of(AZURE_2024, tmp_path), tmp_path) == pytest.approx([0, 0.001163], abs=1e-6)


def test_azures_columns_are_known_by_their_names(tmp_path: Path) -> None:
    data = b"Service, GeneratedTokens,TIMESTAMP,ContextTokens\na,5,2024-05-12 00:00:00+02:00,7\n"
    assert rows_of(data, tmp_path) == [TraceRow(1715464800, 7, 5)]


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (b'{"timestamp": "x", "input_length": 5, "output_length": 5}', "`$.timestamp`"),
        (b'{"timestamp": 1, "output_length": 5}', "missing required field `input_length`"),
        (b'{"timestamp": 1, "input_length": 0, "output_length": 5}', "`$.input_length`"),
        (b'{"timestamp": 1, "input_length": 5, "output_length": 0}', "`$.output_length`"),
        (b'{"timestamp": 1, "input_length": 512, "output_length": 5, "hash_ids": [1, 2]}', "hash_ids names 2 blocks"),
        (b'{"timestamp": 1, "input_length": 513, "output_length": 5, "hash_ids": [1]}', "takes 2 of 512 tokens"),
        (b'{"prompt": "a"}', "missing required field `timestamp`"),
    ],
)
def test_a_wrong_line_of_mooncakes_is_named_with_its_field(row: bytes, words: str, tmp_path: Path) -> None:
    assert_wrong(MOONCAKE + row, "line 4: ", words, tmp_path)


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (b"2024-05-12 00:00:00,5", "must have 3 fields, not 2"),
        (b"yesterday,5,5", "TIMESTAMP must be a time like"),
        (b"2024-05-12 00:00:00,5.5,5", "ContextTokens must be a whole number of tokens"),
        (b"2024-05-12 00:00:00,5,0", "GeneratedTokens must be a whole number of tokens, 1 to"),
        (b"2024-05-12 00:00:00,5,99999999999", "GeneratedTokens"),
        (b"\xff,5,5", "can't decode"),
    ],
)
def test_a_wrong_line_of_azures_is_named_with_its_field(row: bytes, words: str, tmp_path: Path) -> None:
    assert_wrong(AZURE_2024 + row, "line 4: ", words, tmp_path)


def assert_wrong(data: bytes, start: str, words: str, directory: Path) -> None:
    plan = plan_of(data, directory)
    for path, read in (("mix.classes[0].prompts", read_prompt_files), ("load.trace", read_arrivals)):
        with pytest.raises(PlanError) as caught:
            read(plan, directory)
        (problem,) = caught.value.problems
        assert problem.path == path
        assert problem.message.startswith(start)
        assert words in problem.message


@pytest.mark.parametrize("data", [b"7.5\n\n 3\n4e0\n", b"[7.5,\n3, 4]"])
def test_times_may_be_seconds_alone_and_in_any_order(data: bytes, tmp_path: Path) -> None:
    assert read_arrivals(plan_of(data, tmp_path), tmp_path) == [0, 1, 4.5]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"5\nnan", "line 2: must be a number of seconds, or the file a trace, not 'nan'"),
        (b'{"prompt": "a"}', "line 1: must be a number of seconds"),
        (b'[1, "x"]', "item 2: must be"),
        (b"", "holds nothing"),
    ],
)
def test_times_that_are_none_are_told(data: bytes, words: str, tmp_path: Path) -> None:
    with pytest.raises(PlanError, match=r"^load\.trace: ") as caught:
        read_arrivals(plan_of(data, tmp_path), tmp_path)
    assert words in str(caught.value)


@given(
    st.lists(st.floats(0, 1e6), max_size=30).map(sorted), st.floats(0.1, 100, allow_subnormal=False), st.integers(1, 5)
)
def test_parts_share_a_trace_without_loss(times: list[float], speed: float, parts: int) -> None:
    load = OpenLoad(arrivals="trace", trace="t", speed=speed)
    shares = [list(open_arrivals_s(load, 1, part, parts, times)) for part in range(parts)]
    assert sum(len(share) for share in shares) == len(times)
    assert [shares[number % parts][number // parts] for number in range(len(times))] == [at / speed for at in times]


@pytest.mark.parametrize("kind", ["byte-level", "BOS", "characters", "SentencePiece"])
def test_blocks_are_the_same_tokens_wherever_they_appear(kind: str, tmp_path: Path) -> None:
    tokens = Tokens(vocabularies.save(kind, tmp_path))
    plan = plan_of(MOONCAKE, tmp_path, protocol="openai-completions")

    def made(stage: int) -> list[str]:
        calibrator = Calibrator(plan.protocol, None, tokens.added)
        maker = PromptMaker(plan, calibrator, read_prompt_files(plan, tmp_path), tokens.vocabulary(), stage)
        return [text_of(one) for one in prompts_of(maker, plan, 6)]

    prompts, again, others = made(5), made(5), made(6)
    assert [count + tokens.added for count in tokens.count(prompts)] == [955, 1472, 600] * 2

    def shared(one: str, other: str) -> int:
        common = next((place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), len(one))
        return tokens.count([one[:common]])[0]

    # The second block of the first prompt is cut where that one ends.
    assert shared(prompts[0], prompts[1]) >= 900
    # Another process of the stage says the same; the lines without blocks never do.
    assert again[:2] == prompts[:2] and again[2] != prompts[2]
    # Neither another stage nor another reading of the file meets what was said before.
    assert max(shared(prompts[0], other) for other in (others[0], prompts[3])) < 30
    assert shared(prompts[3], prompts[4]) >= 900


def test_lengths_and_a_shared_prefix_are_kept_without_a_tokenizer(tmp_path: Path) -> None:
    known = {"calibration": {"words_per_token": 0.75, "overhead_tokens": 20}}
    mixed = {"classes": [{"name": "t", "prompts": "trace", "output_tokens": 5}], "shared_prefix_tokens": 100}
    plan = plan_of(MOONCAKE, tmp_path, protocol="openai-completions", mix=mixed, **known)
    made = prompts_of(
        PromptMaker(plan, Calibrator(plan.protocol, plan.calibration), read_prompt_files(plan, tmp_path)), plan, 3
    )
    assert [one.planned_input_tokens for one in made] == [1055, 1572, 700]
    assert [one.planned_output_tokens for one in made] == [52, 26, 9]
    texts = [text_of(one).split() for one in made]
    # A nonce of digits comes on top of the words where nothing is shared.
    assert [len(words) for words in texts] == [round(1035 * 0.75), round(1552 * 0.75), round(680 * 0.75) + 1]
    assert texts[0][:75] == texts[1][:75] == texts[2][:75]
    assert texts[0][75 : 75 + 384] == texts[1][75 : 75 + 384]
    assert texts[0][75] != texts[2][75]


@pytest.mark.parametrize("processes", [1, 3])
def test_a_stage_replays_a_trace_and_ends_with_it(processes: int, tmp_path: Path) -> None:
    trace = [
        {"timestamp": 1000 + 40 * number, "input_length": 600, "output_length": 2 + number, "hash_ids": [7, 8 + number]}
        for number in range(20)
    ]
    (tmp_path / "trace").write_text("\n".join(json.dumps(row) for row in trace))
    load = {"kind": "open", "arrivals": "trace", "trace": "trace", "speed": 2, "max_outstanding": 30}
    known = {"words_per_token": 1, "overhead_tokens": 10}
    changes: dict[str, Any] = {"warmup_s": 0.1, "measure_s": 60, "processes": processes, "calibration": known}
    mixed = {"classes": [{"name": "t", "prompts": "trace"}]}
    with Server(Behaviour(ttft_ms=1, itl_ms=0)).running() as server:
        ran = run(plan_for(server.base_url, load=load, mix=mixed, **changes), tmp_path)
        seen = list(server.seen)
    assert (ran.code, ran.errors) == (0, "")
    assert ran.summary["window_s"] < 30
    rows = sorted(ran.rows, key=lambda row: row["t_due_ns"])
    assert [row["t_due_ns"] for row in rows] == pytest.approx([20e6 * number for number in range(20)], abs=2)
    # The request that came n-th is the n-th line's.
    assert [row["output_tokens"] for row in rows] == [row["output_length"] for row in trace]
    assert [row["measured"] for row in rows] == [number >= 5 for number in range(20)]
    assert {row["outcome"] for row in rows} == {"ok"}
    assert len({tuple(words_of(one)[:512]) for one in seen}) == 1
    assert len({tuple(words_of(one)) for one in seen}) == 20


def words_of(seen: Seen) -> list[str]:
    return str(seen.body["messages"][0]["content"]).split()


def test_a_trace_that_is_wrong_ends_the_stage_before_it_begins(tmp_path: Path) -> None:
    (tmp_path / "trace").write_text("soon")
    load = {"kind": "open", "arrivals": "trace", "trace": "trace"}
    ran = run(plan_for("http://127.0.0.1:9/v1", load=load), tmp_path)
    assert ran.code == 2
    assert "load.trace: line 1: must be a number of seconds" in ran.errors
