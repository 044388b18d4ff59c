"""Installs the other load generators, each from PyPI into an environment of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.bench import clients
from tests.bench.clients import Client
from workers.loadgen.words import WORDS

PACKAGES = {"guidellm": "guidellm", "aiperf": "aiperf", "evalscope": "evalscope[perf]"}
# And why, for the results.
NOT_INSTALLED = {
    "vllm bench serve": "not tried: it comes only with all of vLLM, 198 packages with CUDA's libraries (version 0.33)",
}
_MAKERS = {"guidellm": clients.guidellm, "aiperf": clients.aiperf, "evalscope": clients.evalscope}
# Peers count prompts with a tokenizer, which they would fetch; this one is made here, of their own library.
_MAKE_TOKENIZER = """
import json, sys
from pathlib import Path
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
directory, words = Path(sys.argv[1]), sys.argv[2]
tokenizer = Tokenizer(models.BPE())
tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
tokenizer.decoder = decoders.ByteLevel()
alphabet = pre_tokenizers.ByteLevel.alphabet()
trainer = trainers.BpeTrainer(vocab_size=2000, special_tokens=["<|end|>"], initial_alphabet=alphabet)
tokenizer.train_from_iterator([words] * 20, trainer)
directory.mkdir(parents=True, exist_ok=True)
tokenizer.save(str(directory / "tokenizer.json"))
config = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|end|>", "bos_token": "<|end|>"}
config["model_max_length"] = 100000
config["chat_template"] = "{% for message in messages %}{{ message.content }}{% endfor %}"
(directory / "tokenizer_config.json").write_text(json.dumps(config))
"""


class PeerMissing(Exception):
    """A peer cannot be installed or started; the message says why."""


def installed(name: str, directory: Path) -> Client:
    """The peer, installed below `directory` when it is not yet. Raises PeerMissing."""
    python = directory / "venvs" / name / "bin" / "python"
    if not python.with_name(name).exists():
        print(f"Installing {name} (minutes the first time)", file=sys.stderr)
        _run([sys.executable, "-m", "venv", str(python.parents[1])], name)
        _run([str(python), "-m", "pip", "install", "--quiet", PACKAGES[name]], name)
    version = _run([str(python), "-c", f"from importlib.metadata import version; print(version({name!r}))"], name)
    tokenizer = directory / "tokenizer"
    _run([str(python), "-c", _MAKE_TOKENIZER, str(tokenizer), " ".join(WORDS)], name)
    return _MAKERS[name](python, version.strip(), tokenizer)


def environment() -> dict[str, str]:
    """No look-ups on the network, no colours."""
    return os.environ | {"NO_COLOR": "1", "PYTHONUNBUFFERED": "1"}


def _run(command: list[str], name: str) -> str:
    ran = subprocess.run(command, capture_output=True, text=True, env=environment())
    if ran.returncode:
        raise PeerMissing(f"{name}: {(ran.stderr or ran.stdout).strip()[-500:]}")
    return ran.stdout
