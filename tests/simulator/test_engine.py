"""The engine in real time: what its page says is what was done, and what the model foretold."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from urllib.parse import urlsplit

import httpx
import pytest

from tests.simulator.running import Simulator, simulator
from workers.simulator.mixes import MIXES, deal
from workers.simulator.scenarios import SCENARIOS
from workers.simulator.truth import find_truth

HEALTHY = SCENARIOS["healthy"]
DEADLINE_S = 30.0


def ask(prompt_tokens: int, output_tokens: int) -> dict[str, object]:
    """A request for exactly so many tokens; a text prompt costs one token beside its words."""
    return {"prompt": "word " * (prompt_tokens - 1), "max_tokens": output_tokens, "ignore_eos": True}


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_the_page_counts_what_was_done(fast: Simulator) -> None:
    before = fast.samples()
    for prompt_tokens, output_tokens in ((10, 4), (300, 7), (3000, 1)):
        fast.post("/v1/completions", **ask(prompt_tokens, output_tokens))
    after = fast.samples()

    def change(name: str) -> float:
        return after[name] - before[name]

    assert change("vllm:prompt_tokens_total") == 3310
    assert change("vllm:generation_tokens_total") == 12
    assert change("vllm:request_success_total{finished_reason=length}") == 3
    assert change("vllm:time_to_first_token_seconds_count") == 3
    assert change("vllm:inter_token_latency_seconds_count") == 3 + 6
    assert change("vllm:request_time_per_output_token_seconds_count") == 2
    assert change("vllm:request_prompt_tokens_sum") == 3310
    assert change("vllm:request_generation_tokens_sum") == 12
    # 2048 tokens a step at most: the longest prompt took two, and each answer a step for every later token.
    assert change("vllm:iteration_tokens_total_count") == 1 + 1 + 2 + 3 + 6
    assert change("vllm:iteration_tokens_total_sum") == 3310 + 9
    total_s = change("vllm:e2e_request_latency_seconds_sum")
    assert 0 < change("vllm:request_inference_time_seconds_sum") < total_s
    assert change("vllm:request_prefill_time_seconds_sum") + change(
        "vllm:request_decode_time_seconds_sum"
    ) == pytest.approx(change("vllm:request_inference_time_seconds_sum"))
    assert after["brimline_simulated{scenario=healthy}"] == 1


def test_a_client_that_goes_frees_its_sequence(fast: Simulator) -> None:
    before = fast.samples()
    body = ask(1000, 20_000)
    with httpx.stream("POST", f"{fast.url}/v1/completions", json={**body, "stream": True}, timeout=30) as answer:
        stream = answer.iter_raw()
        next(stream)
        running = fast.samples()
        assert running["vllm:num_requests_running"] == 1
        assert running["vllm:kv_cache_usage_perc"] >= 1000 / (16 * HEALTHY.cache_blocks)
    wait_until(lambda: fast.samples()["vllm:num_requests_running"] == 0)
    after = fast.samples()
    assert after["vllm:kv_cache_usage_perc"] == 0
    aborted = "vllm:request_success_total{finished_reason=abort}"
    assert after[aborted] - before[aborted] == 1


def test_a_client_that_goes_before_its_first_token_frees_its_sequence(fast: Simulator) -> None:
    aborted = "vllm:request_success_total{finished_reason=abort}"
    before = fast.samples()[aborted]
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(f"{fast.url}/v1/completions", json=ask(10, 20_000), timeout=0.05)
    wait_until(lambda: fast.samples()[aborted] == before + 1)
    assert fast.samples()["vllm:num_requests_running"] == 0


@pytest.mark.parametrize("time_scale", [2.0, 8.0])
def test_the_time_scale_divides_every_latency(time_scale: float) -> None:
    prompt_tokens, output_tokens = 10, 40
    with simulator("--time-scale", str(time_scale), "--noise", "0") as running:
        started_s = time.monotonic()
        running.post("/v1/completions", **ask(prompt_tokens, output_tokens))
        took_s = time.monotonic() - started_s
        samples = running.samples()
    decode_s = sum(HEALTHY.cost.step_s(1, prompt_tokens + place, 1) for place in range(1, output_tokens))
    assert samples["vllm:inter_token_latency_seconds_sum"] == pytest.approx(decode_s / time_scale)
    assert samples["vllm:request_decode_time_seconds_sum"] == pytest.approx(decode_s / time_scale)
    assert took_s > decode_s / time_scale


def test_more_clients_than_seats_wait_in_line() -> None:
    with simulator("--time-scale", "4") as running, ThreadPoolExecutor(2) as background:
        done = background.submit(asyncio.run, flood(running.url, 300))
        wait_until(lambda: running.samples()["vllm:num_requests_waiting"] > 0)
        assert running.samples()["vllm:num_requests_running"] <= HEALTHY.limits.max_running
        assert done.result(timeout=120) == 300 * 30
        assert running.samples()["vllm:generation_tokens_total"] == 300 * 30


async def flood(url: str, clients: int) -> int:
    """Tokens that `clients` requests at once got. Bare sockets: an HTTP client takes seconds to open so many."""
    host = urlsplit(url)
    body = json.dumps(ask(20, 30)).encode()
    head = f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"

    async def one() -> int:
        reader, writer = await asyncio.open_connection(host.hostname, host.port)
        writer.write(head.encode() + body)
        answer = await reader.read()
        writer.close()
        return int(json.loads(answer.partition(b"\r\n\r\n")[2])["usage"]["completion_tokens"])

    return sum(await asyncio.gather(*(one() for _ in range(clients))))


def test_the_live_engine_agrees_with_its_truth() -> None:
    """Closed-loop clients against the port; time between tokens as the engine's page has it, in the model's time."""
    clients, mix = 24, MIXES["small"]
    truth = find_truth(HEALTHY, mix, [clients], 0.02, 1)
    foretold = {stage.concurrency: stage.p50["tpot_ms"] for stage in truth.stages}
    with simulator() as running:
        itl_ms = asyncio.run(closed_loop(running, clients, requests=6 * clients))
    weighted_ms = sum(one.weight * one.output_tokens * foretold[clients][one.name] for one in mix.classes) / sum(
        one.weight * one.output_tokens for one in mix.classes
    )
    assert itl_ms == pytest.approx(weighted_ms, rel=0.15)


async def closed_loop(running: Simulator, clients: int, requests: int) -> float:
    """The mean time between tokens, ms, of `requests` requests behind a first round."""
    dealt = deal(MIXES["small"], 1)
    async with httpx.AsyncClient(limits=httpx.Limits(max_connections=None), timeout=60) as client:

        async def slot(rounds: int) -> None:
            for one in islice(dealt, rounds):
                body = ask(one.input_tokens, one.output_tokens)
                answer = await client.post(f"{running.url}/v1/completions", content=json.dumps(body))
                answer.raise_for_status()

        await asyncio.gather(*(slot(requests // clients) for _ in range(clients)))
    samples = running.samples()
    name = "vllm:inter_token_latency_seconds"
    return 1000 * samples[f"{name}_sum"] / samples[f"{name}_count"]
