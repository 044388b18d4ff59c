"""Tokenizers of the kinds that models have, trained in a moment on the generator's own words."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

from workers.loadgen.words import WORDS


def _corpus() -> list[str]:
    random = Random(0)
    return [" ".join(random.choices(WORDS, k=50)) for _ in range(300)]


def byte_level(vocabulary: int = 1500) -> Tokenizer:
    """As GPT-2's, Llama 3's and Qwen's; with 256 tokens it knows bytes alone."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=vocabulary, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(_corpus(), trainer)
    return tokenizer


def with_bos() -> Tokenizer:
    """Adds a BOS; and cuts and pads, as files made for training do: neither must change a count."""
    tokenizer = byte_level()
    tokenizer.add_special_tokens(["<s>"])
    bos = ("<s>", tokenizer.token_to_id("<s>"))
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[bos])
    tokenizer.enable_truncation(16)
    tokenizer.enable_padding(length=32)
    return tokenizer


def sentence_piece() -> Tokenizer:
    """As Llama 2's: a space is a letter, and a text begins with one."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    trainer = trainers.BpeTrainer(vocab_size=1500, special_tokens=["<unk>"], show_progress=False)
    tokenizer.train_from_iterator(list(WORDS) * 3, trainer)
    return tokenizer


def unigram() -> Tokenizer:
    """As T5's; so small that its words cost one to six."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.UnigramTrainer(vocab_size=400, unk_token="<unk>", special_tokens=["<unk>"], show_progress=False)
    tokenizer.train_from_iterator(_corpus(), trainer)
    return tokenizer


def word_piece() -> Tokenizer:
    """As BERT's, with a token before and after."""
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    specials = ["[UNK]", "[CLS]", "[SEP]"]
    trainer = trainers.WordPieceTrainer(vocab_size=1500, special_tokens=specials, show_progress=False)
    tokenizer.train_from_iterator(_corpus(), trainer)
    ends = [(name, tokenizer.token_to_id(name)) for name in specials[1:]]
    tokenizer.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=ends)
    return tokenizer


def characters() -> Tokenizer:
    letters = ["<unk>", " ", *sorted({letter for word in WORDS for letter in word})]
    vocabulary = {letter: place for place, letter in enumerate(letters)}
    return Tokenizer(models.BPE(vocab=vocabulary, merges=[], unk_token="<unk>"))


def spaceless() -> Tokenizer:
    """Its counts do not add up: whole texts, whatever their length, are one unknown token."""
    return Tokenizer(models.WordLevel({"[UNK]": 0}, unk_token="[UNK]"))


KINDS: dict[str, Callable[[], Tokenizer]] = {
    "byte-level": byte_level,
    "bytes alone": lambda: byte_level(256),
    "BOS": with_bos,
    "SentencePiece": sentence_piece,
    "Unigram": unigram,
    "WordPiece": word_piece,
    "characters": characters,
}


@cache
def _text_of(kind: str) -> str:
    return KINDS[kind]().to_str()


def save(kind: str, directory: Path) -> Path:
    """The tokenizer.json of that kind, in `directory`."""
    path = directory / "tokenizer.json"
    path.write_text(_text_of(kind))
    return path
