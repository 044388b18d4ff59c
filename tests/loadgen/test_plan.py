from copy import deepcopy
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.loadgen.deal import deal
from workers.loadgen.lengths import draw
from workers.loadgen.plan import ClosedLoad, PlanError, parse_mix, parse_plan, read_plan

# As the contract shows it.
WHOLE: dict[str, Any] = {
    "base_url": "http://127.0.0.1:8000/v1",
    "model": "m",
    "protocol": "openai-chat",
    "api_key_env": "NAME",
    "headers": {},
    "verify_tls": True,
    "load": {"kind": "closed", "concurrency": 8},
    "warmup_s": 5,
    "measure_s": 30,
    "drain_s": 120,
    "max_requests": None,
    "timeout_s": 600,
    "retries": 0,
    "seed": 1,
    "processes": 1,
    "mix": {
        "classes": [{"name": "short", "weight": 3, "input_tokens": 50, "output_tokens": 200}],
        "shared_prefix_tokens": 0,
    },
    "request": {"temperature": 0, "ignore_eos": True},
}


def changed(**changes: Any) -> dict[str, Any]:
    return deepcopy(WHOLE) | changes


def problems_of(document: Any) -> dict[str, str]:
    with pytest.raises(PlanError) as caught:
        parse_plan(document)
    return {problem.path: problem.message for problem in caught.value.problems}


def mix(*classes: dict[str, Any]) -> dict[str, Any]:
    return {
        "classes": [
            {"name": f"c{place}", "input_tokens": 5, "output_tokens": 5} | one for place, one in enumerate(classes)
        ]
    }


def test_the_plan_of_the_contract_is_read() -> None:
    plan = parse_plan(WHOLE)
    assert plan.load == ClosedLoad(concurrency=8)
    assert (plan.warmup_s, plan.mix.classes[0].weight, plan.keep_itl, plan.calibration) == (5.0, 3.0, False, None)


def test_every_problem_is_listed_with_its_key() -> None:
    found = problems_of(
        changed(
            warmup=3,
            measure_s=-1,
            timeout_s="x",
            load={"kind": "opened"},
            seed=1.5,
            mix=mix({"weight": 0, "wieght": 1}),
        )
    )
    assert set(found) == {
        "warmup",
        "measure_s",
        "timeout_s",
        "load.kind",
        "seed",
        "mix.classes[0].weight",
        "mix.classes[0].wieght",
    }
    assert "did you mean warmup_s?" in found["warmup"]
    assert "closed, open" in found["load.kind"]


@pytest.mark.parametrize(
    ("changes", "path", "word"),
    [
        ({"base_url": "h:80"}, "base_url", "http://"),
        ({"protocol": "grpc"}, "protocol", "openai-chat"),
        ({"load": {"kind": "closed"}}, "load.concurrency", "missing"),
        ({"load": {"kind": "closed", "concurrency": 0}}, "load.concurrency", "from 1"),
        ({"load": {"kind": "closed", "concurrency": True}}, "load.concurrency", "whole number"),
        ({"load": {"kind": "open", "rate_rps": 4, "arrivals": "gamma"}}, "load.arrivals", "poisson"),
        ({"load": {"kind": "open", "rate_rps": 1e-300}}, "load.rate_rps", "at least 1e-06"),
        ({"proxy": "http://[::1"}, "proxy", "must be a URL"),
        ({"base_url": "http://例え.テスト/v1"}, "base_url", "ASCII"),
        ({"processes": 9}, "processes", "8"),
        ({"mix": mix()}, "mix.classes", "1 to 100"),
        ({"mix": mix({"name": "a"}, {"name": "a"})}, "mix.classes", "different names"),
        ({"mix": mix({"output_tokens": None})}, "mix.classes[0].output_tokens", "missing"),
        ({"mix": mix({"prompts": "f.jsonl"})}, "mix.classes[0].input_tokens", "beside prompts"),
        (
            {"mix": mix({"input_tokens": {"dist": "uniform", "min": 9, "max": 5}})},
            "mix.classes[0].input_tokens.min",
            "above max",
        ),
        ({"mix": mix({"input_tokens": {"dist": "norml"}})}, "mix.classes[0].input_tokens.dist", "lognormal"),
        (
            {"mix": mix({"input_tokens": {"dist": "empirical", "values": []}})},
            "mix.classes[0].input_tokens.values",
            "list",
        ),
        ({"mix": mix({"weight": 1}, {"weight": 99999})}, "mix.classes", "ratio"),
        ({"mix": mix({"weight": 0.0001}, {"weight": 1})}, "mix.classes", "ratio"),
        ({"headers": {"Content-Length": "5"}}, "headers.Content-Length", "remove"),
        ({"headers": {"Authorization": "x"}}, "headers.Authorization", "only one"),
        ({"headers": {"X-A": "a\r\nb: c"}}, "headers.X-A", "one line"),
        ({"headers": {"X A": "a"}}, "headers.X A", "name"),
        ({"request": {"stream": False}}, "request.stream", "remove"),
        ({"calibration": {"words_per_token": 0, "overhead_tokens": 1}}, "calibration.words_per_token", "above 0"),
    ],
)
def test_a_bad_value_is_named_with_what_to_do(changes: dict[str, Any], path: str, word: str) -> None:
    assert word in problems_of(changed(**changes))[path]


def test_no_message_shows_a_header() -> None:
    assert "hunter2" not in str(problems_of(changed(headers={"X-Key": "hunter2", "Y": 5})))


def test_a_document_that_is_no_object_is_refused(tmp_path: Path) -> None:
    assert "object" in problems_of([1])[""]
    path = tmp_path / "plan.json"
    path.write_text("{")
    with pytest.raises(PlanError, match="not JSON"):
        read_plan(path)
    with pytest.raises(PlanError, match="cannot be read"):
        read_plan(tmp_path / "none.json")


def test_a_mix_is_checked_alone() -> None:
    with pytest.raises(PlanError, match=r"classes\[0\]\.input_tokens: must be"):
        parse_mix(mix({"input_tokens": -1}), "")


DISTRIBUTIONS = st.one_of(
    st.integers(1, 1000),
    st.tuples(st.integers(1, 50), st.integers(50, 100)).map(
        lambda ends: {"dist": "uniform", "min": ends[0], "max": ends[1]}
    ),
    st.floats(1, 1000).map(lambda mean: {"dist": "normal", "mean": mean, "sd": mean, "min": 3, "max": 2000}),
    st.floats(1, 1000).map(lambda median: {"dist": "lognormal", "median": median, "sigma": 2, "max": 4000}),
    st.lists(st.integers(1, 9), min_size=1).map(lambda values: {"dist": "empirical", "values": values}),
)


@given(DISTRIBUTIONS, st.integers())
def test_every_length_is_inside_its_bounds(length: Any, seed: int) -> None:
    parsed = parse_mix(mix({"input_tokens": length})).classes[0].input_tokens
    assert parsed is not None
    low, high = (length, length) if isinstance(length, int) else (length.get("min", 1), length.get("max", 9))
    random = Random(seed)
    assert all(low <= draw(parsed, random) <= high for _ in range(20))


@given(st.lists(st.integers(1, 9), min_size=1, max_size=5), st.integers(0, 1000), st.integers(1, 4))
def test_each_block_of_the_deal_has_the_exact_ratio_and_parts_share_it(
    weights: list[int], seed: int, parts: int
) -> None:
    parsed = parse_mix(
        mix(*({"weight": weight, "input_tokens": {"dist": "uniform", "min": 1, "max": 99}} for weight in weights))
    )
    block = parsed.block
    size = sum(block)
    dealing = deal(parsed, seed)
    dealt = [next(dealing) for _ in range(3 * size)]
    for start in range(0, len(dealt), size):
        classes = [one.class_index for one in dealt[start : start + size]]
        assert [classes.count(index) for index in range(len(weights))] == block
    shared = [deal(parsed, seed, part, parts) for part in range(parts)]
    assert [next(shared[number % parts]) for number in range(len(dealt))] == dealt


def test_weights_may_be_fractions() -> None:
    assert parse_mix(mix({"weight": 0.3}, {"weight": 0.4}, {"weight": 0.3})).block == [3, 4, 3]
    assert parse_mix(mix({"weight": 1 / 3}, {"weight": 2 / 3})).block == [1, 2]
