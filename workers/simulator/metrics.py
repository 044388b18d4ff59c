"""The Prometheus page in vLLM's names and buckets (vllm/v1/metrics/loggers.py, buckets.py), with one family that says
that it is simulated. Times are the wall's seconds, what a client sees: at time scale S the model's divided by S.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Buckets

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST as CONTENT_TYPE

from workers.simulator.openai import FinishReason
from workers.simulator.scenarios import Scenario
from workers.simulator.scheduler import Scheduler, Sequence, Step

__all__ = ["CONTENT_TYPE", "Metrics"]

_REQUEST_S = (0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680)
_OVER_S = (160, 640, 2560)
_TTFT_S = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, *_OVER_S)
_TOKEN_S = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80)
_ITERATION_TOKENS = (1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)
_FINISH_REASONS = ("stop", "length", "abort", "error", "repetition")
_LABELS = ("model_name", "engine")


class Metrics:
    """`observe_step` after every step, `observe_end` after every request; `page` is the text to serve."""

    def __init__(self, scenario: Scenario, model: str, scheduler: Scheduler, time_scale: float) -> None:
        self._registry = CollectorRegistry()
        self._labels = (model, "0")
        self._wall_s = 1 / time_scale
        cache = scheduler.cache
        self._gauge("num_requests_running", "Requests in model execution batches.", lambda: len(scheduler.running))
        self._gauge("num_requests_waiting", "Requests waiting to be processed.", lambda: len(scheduler.waiting))
        self._gauge("kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage.", lambda: cache.usage)
        self._info(
            "vllm:cache_config_info",
            "Information of the LLMEngine CacheConfig",
            block_size=str(cache.block_tokens),
            num_gpu_blocks=str(cache.blocks),
            enable_prefix_caching="False",
            engine="0",
        )
        self._info("brimline_simulated", "1: no real engine wrote this page.", scenario=scenario.name)

        self._preemptions = self._counter("num_preemptions", "Cumulative number of preemptions from the engine.")
        self._prompt_tokens = self._counter("prompt_tokens", "Number of prefill tokens processed.")
        self._generated = self._counter("generation_tokens", "Number of generation tokens processed.")
        success = Counter(
            "vllm:request_success",
            "Count of successfully processed requests.",
            (*_LABELS, "finished_reason"),
            registry=self._registry,
        )
        self._ended = {reason: success.labels(*self._labels, reason) for reason in _FINISH_REASONS}

        lengths = _one_two_five(scenario.max_model_len)
        self._iteration = self._histogram("iteration_tokens_total", "Tokens per engine step.", _ITERATION_TOKENS)
        self._ttft = self._histogram("time_to_first_token_seconds", "Time to first token.", _TTFT_S)
        self._itl = self._histogram("inter_token_latency_seconds", "Inter-token latency.", _TOKEN_S)
        self._tpot = self._histogram("request_time_per_output_token_seconds", "Mean of a request.", _TOKEN_S)
        self._e2e = self._histogram("e2e_request_latency_seconds", "End to end request latency.", _REQUEST_S)
        self._queue = self._histogram("request_queue_time_seconds", "Time spent in WAITING phase.", _REQUEST_S)
        self._inference = self._histogram("request_inference_time_seconds", "Time in RUNNING phase.", _REQUEST_S)
        self._prefill = self._histogram("request_prefill_time_seconds", "Time in PREFILL phase.", _REQUEST_S)
        self._decode = self._histogram("request_decode_time_seconds", "Time in DECODE phase.", _REQUEST_S)
        self._prompts = self._histogram("request_prompt_tokens", "Prefill tokens of a request.", lengths)
        self._outputs = self._histogram("request_generation_tokens", "Generation tokens of a request.", lengths)

    def observe_step(self, step: Step, emitted: list[Sequence]) -> None:
        self._iteration.observe(step.tokens)
        self._preemptions.inc(step.preemptions)
        self._generated.inc(len(emitted))
        for sequence in emitted:
            if sequence.gap_s is not None:
                self._itl.observe(sequence.gap_s * self._wall_s)
            elif sequence.first_token_s is not None:
                self._ttft.observe((sequence.first_token_s - sequence.arrived_s) * self._wall_s)
                self._prompt_tokens.inc(sequence.prompt_tokens)

    def observe_end(self, sequence: Sequence, reason: FinishReason) -> None:
        queued_s, started_s = sequence.queued_s, sequence.started_s
        first_s, last_s = sequence.first_token_s, sequence.last_token_s
        assert queued_s is not None and started_s is not None and first_s is not None and last_s is not None
        wall_s = self._wall_s
        self._ended[reason].inc()
        self._e2e.observe((last_s - sequence.arrived_s) * wall_s)
        self._queue.observe((started_s - queued_s) * wall_s)
        self._inference.observe((last_s - started_s) * wall_s)
        self._prefill.observe((first_s - started_s) * wall_s)
        self._decode.observe((last_s - first_s) * wall_s)
        self._prompts.observe(sequence.prompt_tokens)
        self._outputs.observe(sequence.generated)
        if sequence.generated > 1:
            self._tpot.observe((last_s - first_s) / (sequence.generated - 1) * wall_s)

    def observe_abort(self) -> None:
        self._ended["abort"].inc()

    def page(self) -> bytes:
        return generate_latest(self._registry)

    def _gauge(self, name: str, words: str, read: Callable[[], float]) -> None:
        Gauge(f"vllm:{name}", words, _LABELS, registry=self._registry).labels(*self._labels).set_function(read)

    def _info(self, name: str, words: str, **labels: str) -> None:
        Gauge(name, words, tuple(labels), registry=self._registry).labels(**labels).set(1)

    def _counter(self, name: str, words: str) -> Counter:
        return Counter(f"vllm:{name}", words, _LABELS, registry=self._registry).labels(*self._labels)

    def _histogram(self, name: str, words: str, buckets: Buckets[float]) -> Histogram:
        histogram = Histogram(f"vllm:{name}", words, _LABELS, buckets=buckets, registry=self._registry)
        return histogram.labels(*self._labels)


def _one_two_five(highest: int) -> list[float]:
    """1, 2, 5, 10, 20 … up to `highest`."""
    series = (mantissa * 10.0**power for power in range(len(str(highest))) for mantissa in (1, 2, 5))
    return [value for value in series if value <= highest]
