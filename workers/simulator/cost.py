"""What one step of an engine costs in time, from its model and hardware. Knows no requests and no schedule."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CostModel:
    """A dense transformer on one accelerator. `bandwidth_bytes_per_s` and `flops_per_s` are what the kernels reach, not
    the data sheet's peaks."""

    parameters: float
    bytes_per_parameter: float
    kv_bytes_per_token: float
    bandwidth_bytes_per_s: float
    flops_per_s: float
    cpu_s_per_step: float
    cpu_s_per_sequence: float
    cpu_s_per_request: float
    """Before the scheduler sees a request: HTTP, template, tokenizer. It delays the request and loads no step."""
    cpu_jitter_per_request: float
    """The standard deviation of that, as a share: a front end's time varies much more than a step's."""

    def step_s(self, tokens: int, kv_tokens: int, sequences: int) -> float:
        """Seconds of a step that computes `tokens` new tokens of `sequences`, whose contexts hold `kv_tokens`.

        The linear layers read every weight once a step and do 2 operations a weight and token, overlapped: the longer
        of the two counts (roofline). Attention reads the keys and values of every context. The CPU's time (schedule,
        launch; sample and detokenize each sequence) comes on top.
        """
        weights_s = self.parameters * self.bytes_per_parameter / self.bandwidth_bytes_per_s
        compute_s = 2 * self.parameters * tokens / self.flops_per_s
        attention_s = kv_tokens * self.kv_bytes_per_token / self.bandwidth_bytes_per_s
        cpu_s = self.cpu_s_per_step + self.cpu_s_per_sequence * sequences
        return max(weights_s, compute_s) + attention_s + cpu_s
