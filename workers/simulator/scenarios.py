"""The scenarios by name: every number that makes one engine behave unlike another. A table, no behaviour."""

from __future__ import annotations

from dataclasses import dataclass

from workers.simulator.cost import CostModel
from workers.simulator.scheduler import SchedulerLimits


@dataclass(frozen=True, slots=True)
class Scenario:
    """`cause`: what is wrong with this engine, in words; None when nothing is."""

    name: str
    description: str
    cause: str | None
    cost: CostModel
    limits: SchedulerLimits
    block_tokens: int
    cache_blocks: int
    max_model_len: int


# An 8B model in 16 bit with grouped-query attention (2 × 32 layers × 8 heads × 128 × 2 bytes of KV a token) on one
# card of 80 GB: about 85% of 2 TB/s and 65% of 312 TFLOP/s, 16 GB of weights, 52 GB left for the cache.
_8B_ON_80GB = CostModel(
    parameters=8.0e9,
    bytes_per_parameter=2.0,
    kv_bytes_per_token=131_072,
    bandwidth_bytes_per_s=1.7e12,
    flops_per_s=2.0e14,
    cpu_s_per_step=0.0004,
    cpu_s_per_sequence=0.00006,
    cpu_s_per_request=0.050,
    cpu_jitter_per_request=0.2,
)

_SCENARIOS = (
    Scenario(
        name="healthy",
        description="nothing is wrong: continuous batching, paged KV, chunked prefill; bandwidth sets the load line",
        cause=None,
        cost=_8B_ON_80GB,
        limits=SchedulerLimits(max_running=256, max_batched_tokens=2048),
        block_tokens=16,
        cache_blocks=24_800,
        max_model_len=32_768,
    ),
)

SCENARIOS = {scenario.name: scenario for scenario in _SCENARIOS}
