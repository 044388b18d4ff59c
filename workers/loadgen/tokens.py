"""Counts as the model does, with its tokenizer.json, and finds the words whose counts add up.

Knows nothing of requests: what is counted, and when, is for others to say.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random

from tokenizers import Tokenizer

from workers.loadgen.checking import Problem
from workers.loadgen.plan import PlanError
from workers.loadgen.words import WORDS, Vocabulary

# Six of so many words, drawn at random, are 40 bits: enough to be met once.
_ENOUGH_WORDS = 102
_BATCH = 256
_ANCHOR = "the"


class Tokens:
    """A model's tokenizer. `added` counts what it puts around every prompt by itself, like a BOS."""

    def __init__(self, path: Path) -> None:
        """Raises PlanError."""
        try:
            self._tokenizer = Tokenizer.from_str(path.read_text("utf-8"))
        except OSError as error:
            raise _problem(f"the file {path} cannot be read: {error.strerror}") from None
        # The library raises plain Exception for whatever it does not like.
        except Exception as error:
            raise _problem(f"the file {path} is no tokenizer.json (of Hugging Face's tokenizers): {error}") from None
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self.added: int = self._tokenizer.num_special_tokens_to_add(is_pair=False)

    def count(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text, without those that are added to a prompt."""
        counts: list[int] = []
        for start in range(0, len(texts), _BATCH):
            # Half a surrogate pair, which servers do send, is no text for the library.
            whole = [text.encode("utf-8", "replace").decode() for text in texts[start : start + _BATCH]]
            batch = self._tokenizer.encode_batch_fast(whole, add_special_tokens=False)
            counts.extend(len(one.ids) for one in batch)
        return counts

    def vocabulary(self) -> Vocabulary:
        """Words whose costs in tokens add up to the count of every text made of them. One-token words, if they are
        enough for unique prompts. Raises PlanError.
        """
        anchor, *after = self.count([_ANCHOR, *(f"{_ANCHOR} {word}" for word in WORDS)])
        costs = [count - anchor for count in after]
        starts = [count - cost for count, cost in zip(self.count(WORDS), costs, strict=True)]
        ones = [place for place, (cost, start) in enumerate(zip(costs, starts, strict=True)) if (cost, start) == (1, 0)]
        start, _ = Counter(starts).most_common(1)[0]
        alike = [place for place, one in enumerate(starts) if one == start and costs[place] > 0]
        for places, common_start in ((ones, 0), (alike, start)):
            if len(places) >= _ENOUGH_WORDS:
                found = Vocabulary([WORDS[place] for place in places], [costs[place] for place in places], common_start)
                if self._adds_up(found):
                    return found
        raise _problem("this tokenizer's counts of words do not add up to its counts of texts; leave tokenizer out")

    def _adds_up(self, vocabulary: Vocabulary) -> bool:
        random = Random(0)
        chosen = [random.choices(range(len(vocabulary.words)), k=length) for length in (1, 2, 3, 50) * 25 + (2000,)]
        # Every word once, beside another one each time.
        chosen += [random.sample(range(len(vocabulary.words)), len(vocabulary.words)) for _ in range(10)]
        texts = [" ".join(vocabulary.words[place] for place in places) for places in chosen]
        expected = [sum(vocabulary.costs[place] for place in places) + vocabulary.start for places in chosen]
        return self.count(texts) == expected


def _problem(message: str) -> PlanError:
    return PlanError([Problem("tokenizer", message)])
