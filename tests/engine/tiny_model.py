"""Writes a small llama-architecture GGUF with random weights: a real model for a real engine, made in a second.

The vocabulary is bytes plus a few syllables, so that any prompt can be tokenised. What it says means nothing.
"""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np
from numpy.typing import NDArray

HEAD = 64
SYLLABLES = [
    "▁" + first + vowel + tail
    for first in "bcdfglmnprst"
    for vowel in "aeiou"
    for tail in ("", "n", "r", "s", "l", "t")
]


def write(path: Path, width: int = 256, layers: int = 4, context: int = 32768) -> None:
    """`width` is the embedding length, a multiple of 64; 256 × 4 layers is about 7 MB and 1,500 tokens/s on a core."""
    random = np.random.default_rng(0)
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *SYLLABLES]
    kind = gguf.TokenType

    out = gguf.GGUFWriter(str(path), "llama")
    out.add_name("tiny-random")
    out.add_context_length(context)
    out.add_embedding_length(width)
    out.add_block_count(layers)
    out.add_feed_forward_length(3 * width)
    out.add_head_count(width // HEAD)
    out.add_head_count_kv(width // HEAD)
    out.add_layer_norm_rms_eps(1e-5)
    out.add_rope_dimension_count(HEAD)
    out.add_vocab_size(len(tokens))
    out.add_tokenizer_model("llama")
    out.add_tokenizer_pre("default")
    out.add_token_list(tokens)
    # Syllables win over bytes wherever both could spell a text.
    out.add_token_scores([0.0] * 3 + [-1000.0] * 256 + [-float(rank) for rank in range(len(SYLLABLES))])
    out.add_token_types([kind.UNKNOWN, kind.CONTROL, kind.CONTROL, *[kind.BYTE] * 256, *[kind.NORMAL] * len(SYLLABLES)])
    out.add_bos_token_id(1)
    out.add_eos_token_id(2)
    out.add_unk_token_id(0)
    out.add_add_bos_token(True)
    out.add_add_space_prefix(True)
    out.add_chat_template("{% for m in messages %}{{ m['content'] }} {% endfor %}")

    def matrix(*shape: int) -> NDArray[np.float16]:
        return (random.standard_normal(shape) * 0.02).astype(np.float16)

    ones = np.ones(width, np.float32)
    embedding = matrix(len(tokens), width)
    # A byte's logit is 0 while some syllable's is well above it, so greedy decoding yields whole, visible pieces
    # of text: the first token that a client can see is the first one that the engine made.
    output = embedding.copy()
    output[: 3 + 256] = 0
    output[3 + 256 :] = np.abs(output[3 + 256 :])
    out.add_tensor("token_embd.weight", embedding)
    out.add_tensor("output_norm.weight", ones)
    out.add_tensor("output.weight", output)
    for layer in range(layers):
        block = f"blk.{layer}."
        out.add_tensor(block + "attn_norm.weight", ones)
        out.add_tensor(block + "ffn_norm.weight", ones)
        for part in ("q", "k", "v", "output"):
            out.add_tensor(f"{block}attn_{part}.weight", matrix(width, width))
        out.add_tensor(block + "ffn_gate.weight", matrix(3 * width, width))
        out.add_tensor(block + "ffn_up.weight", matrix(3 * width, width))
        out.add_tensor(block + "ffn_down.weight", matrix(width, 3 * width))
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()
