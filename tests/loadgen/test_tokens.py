import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from tests.loadgen import vocabularies
from tests.loadgen.program import plan_for, run
from tests.loadgen.server import Behaviour, Server
from tests.loadgen.test_plan import changed, mix
from workers.loadgen.calibration import Calibrator
from workers.loadgen.deal import Dealt
from workers.loadgen.plan import Plan, PlanError, parse_plan
from workers.loadgen.prompts import Prepared, PromptMaker
from workers.loadgen.tokens import Tokens
from workers.loadgen.words import Text, Vocabulary

kinds = pytest.mark.parametrize("kind", vocabularies.KINDS)


def maker_of(plan: Plan, tokens: Tokens) -> PromptMaker:
    calibrator = Calibrator(plan.protocol, plan.calibration, tokens.added)
    return PromptMaker(plan, calibrator, {}, tokens.vocabulary())


def prompt_of(prepared: Prepared) -> str:
    return str(json.loads(prepared.body)["prompt"])


@kinds
def test_a_completions_prompt_is_what_was_asked_to_the_token(kind: str, tmp_path: Path) -> None:
    """Counted as a server would: by the file itself, with what it adds."""
    path = vocabularies.save(kind, tmp_path)
    server = Tokenizer.from_file(str(path))
    server.no_truncation()
    server.no_padding()
    tokens = Tokens(path)
    plan = parse_plan(changed(protocol="openai-completions"))
    maker = maker_of(plan, tokens)
    least = tokens.added + 1
    for asked in [*range(least, least + 60), 257, 5000, 90_000]:
        assert len(server.encode(prompt_of(maker.make(Dealt(0, 0, asked, 1)))).ids) == asked


@kinds
def test_a_shared_prefix_is_part_of_the_exact_length_and_of_every_prompt(kind: str, tmp_path: Path) -> None:
    path = vocabularies.save(kind, tmp_path)
    tokens = Tokens(path)
    plan = parse_plan(changed(protocol="openai-completions", mix=mix({}) | {"shared_prefix_tokens": 300}))
    first, second = (maker_of(plan, tokens).make(Dealt(0, 0, 200, 1)) for _ in range(2))
    assert tokens.count([prompt_of(first), prompt_of(second)]) == [500 - tokens.added] * 2
    assert first.planned_input_tokens == 500
    common = next(
        place for place, (a, b) in enumerate(zip(prompt_of(first), prompt_of(second), strict=False)) if a != b
    )
    assert 295 <= tokens.count([prompt_of(first)[:common]])[0] <= 310


@kinds
def test_prompts_are_unique_from_their_first_words_on(kind: str, tmp_path: Path) -> None:
    tokens = Tokens(vocabularies.save(kind, tmp_path))
    maker = maker_of(parse_plan(changed(protocol="openai-completions")), tokens)
    starts = {tuple(prompt_of(maker.make(Dealt(0, 0, 100, 1))).split()[:6]) for _ in range(500)}
    assert len(starts) == 500


def test_what_a_chat_template_adds_is_learned_exactly(tmp_path: Path) -> None:
    tokens = Tokens(vocabularies.save("byte-level", tmp_path))
    plan = parse_plan(changed())
    calibrator = Calibrator(plan.protocol, None, tokens.added)
    maker = PromptMaker(plan, calibrator, {}, tokens.vocabulary())
    template_tokens = 37

    def counted(asked: int) -> tuple[int, int]:
        prepared = maker.make(Dealt(0, 0, asked, 1))
        own = tokens.count([json.loads(prepared.body)["messages"][0]["content"]])[0]
        assert own == prepared.words
        return prepared.words, own + template_tokens

    calibrator.observe(*counted(100))
    for asked in (50, 100, 4000):
        assert counted(asked)[1] == asked
        calibrator.observe(*counted(asked))
    assert (calibrator.model.words_per_token, calibrator.model.overhead_tokens) == (1, template_tokens)


def test_a_known_overhead_is_used_with_a_tokenizer(tmp_path: Path) -> None:
    known = {"calibration": {"words_per_token": 0.7, "overhead_tokens": 21}}
    plan = parse_plan(changed(**known))
    tokens = Tokens(vocabularies.save("byte-level", tmp_path))
    assert maker_of(plan, tokens).make(Dealt(0, 0, 100, 1)).words == 79


def test_texts_are_counted_without_what_is_added_to_a_prompt(tmp_path: Path) -> None:
    tokens = Tokens(vocabularies.save("BOS", tmp_path))
    assert tokens.added == 1
    texts = ["" if place % 7 == 0 else "word " * place for place in range(600)]
    expected = [len(one.ids) for one in vocabularies.byte_level().encode_batch(texts)]
    assert tokens.count(texts) == expected
    assert tokens.count(["half a pair \ud800"]) == tokens.count(["half a pair ?"])


@settings(deadline=None)
@given(
    st.lists(st.integers(1, 12), min_size=1, max_size=5),
    st.integers(0, 70_000),
    st.integers(0, 1_000_000),
)
def test_a_text_costs_what_was_asked_or_the_next_less_that_can_be_had(costs: list[int], start: int, asked: int) -> None:
    words = [f"w{place}c{cost}" for place, cost in enumerate(costs)]
    cut = Text(1, Vocabulary(words, costs)).cut(start, asked)
    got = sum(int(word.partition("c")[2]) for word in cut.decode().split())
    reachable = {0}
    for total in range(1, 200):
        if any(total - cost in reachable for cost in costs):
            reachable.add(total)
    if asked < 200:
        assert got == max(total for total in reachable if total <= asked)
    else:
        assert asked - min(costs) < got <= asked


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "cannot be read: No such file or directory"),
        (b"{}", "is no tokenizer.json"),
        (b"\xff", "is no tokenizer.json"),
        (vocabularies.spaceless().to_str().encode(), "do not add up"),
    ],
)
def test_a_file_that_is_of_no_use_is_a_problem_of_the_plan(content: bytes | None, words: str, tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(PlanError) as caught:
        Tokens(path).vocabulary()
    (problem,) = caught.value.problems
    assert problem.path == "tokenizer"
    assert words in problem.message


@pytest.mark.parametrize("kind", ["BOS", "characters"])
def test_a_stage_asks_for_exact_lengths_and_counts_what_the_server_does_not(kind: str, tmp_path: Path) -> None:
    path = vocabularies.save(kind, tmp_path)
    plan = plan_for("", tokenizer="tokenizer.json", mix=mix({"input_tokens": 60}))
    for usage in (True, False):
        behaviour = Behaviour(ttft_ms=2, itl_ms=0, tokens_an_event=2, usage=usage, tokenizer=str(path))
        with Server(behaviour).running() as server:
            ran = run(plan | {"base_url": server.base_url}, tmp_path)
        assert (ran.code, ran.errors) == (0, "")
        assert ran.summary["requests"]["ok"] > 0
        if usage:
            assert {row["input_tokens"] for row in ran.rows if row["measured"]} == {60}
            assert ran.summary["calibration"]["words_per_token"] == 1
        counted = 5 if usage else Tokens(path).count(["word " * 5])[0]
        assert {(row["output_tokens"], row["token_source"]) for row in ran.rows if row["outcome"] == "ok"} == {
            (counted, "usage" if usage else "tokenizer")
        }
        assert ran.summary["token_source"] == ("usage" if usage else "tokenizer")


def test_a_stage_with_a_wrong_tokenizer_ends_before_it_begins(tmp_path: Path) -> None:
    ran = run(plan_for("http://127.0.0.1:9/v1", tokenizer="nothing.json"), tmp_path)
    assert ran.code == 2
    assert "tokenizer: the file" in ran.errors
