"""Request bodies that the documentation shows; the tests send them."""

from __future__ import annotations

from typing import Any

TARGET: dict[str, Any] = {
    "name": "llama-3.1-8b on gpu-07",
    "base_url": "http://gpu-07:8000/v1",
    "model": "meta-llama/Llama-3.1-8B-Instruct",
    "protocol": "openai-chat",
    "gpu_count": 1,
    "gpu_model": "H100",
    "metrics": [{"kind": "engine"}],
    "tags": ["staging"],
}
TARGET_CHANGES: dict[str, Any] = {"tags": ["production"], "gpu_count": 2}

MIX: dict[str, Any] = {
    "name": "short, medium and long",
    "classes": [
        {"name": "short", "weight": 3, "input_tokens": 50, "output_tokens": 200},
        {
            "name": "medium",
            "weight": 4,
            "input_tokens": {"dist": "uniform", "min": 400, "max": 600},
            "output_tokens": 500,
        },
        {"name": "long", "weight": 3, "input_tokens": 2000, "output_tokens": 800, "turns": 3, "think_s": 2},
    ],
}
MIX_CHANGES: dict[str, Any] = {"shared_prefix_tokens": 256}

CAMPAIGN: dict[str, Any] = {"name": "nightly", "target": 1, "mix": 1, "stages": [1, 5, 10, 20, 30, 50], "stage_s": 120}
CAMPAIGN_CHANGES: dict[str, Any] = {"stages": [1, 2, 4, 8], "refine": {"enabled": False}}

LAUNCH: dict[str, Any] = {
    "label": "after the driver update",
    "deployment": {"image": "vllm/vllm-openai:v0.9.1", "flags": "--max-num-seqs 256"},
}
