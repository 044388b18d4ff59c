"""Learns how many words make a prompt of so many tokens, from what the server counted during the warm-up.

With a tokenizer a prompt's own tokens are known, and stand for the words: only what the server adds is learned.
"""

from __future__ import annotations

import math

from workers.loadgen.endpoint import Protocol
from workers.loadgen.plan import Calibration

# Before anything is known: short common words are one token each in the usual vocabularies; the rest is the nonce and,
# for chat, the template around the message.
_GUESSES: dict[Protocol, Calibration] = {
    "openai-chat": Calibration(words_per_token=1.0, overhead_tokens=30.0),
    "openai-completions": Calibration(words_per_token=1.0, overhead_tokens=8.0),
}
# What a chat template puts around a message, if it adds no system prompt.
_TEMPLATE_TOKENS = 10.0
# Below this relative spread of prompt lengths a line through them says little: only its slope is fitted.
_SPREAD_MIN = 0.2


class Calibrator:
    """Least squares of prompt tokens on words, until frozen. `requests` is how many requests it learned from.

    `added` is given with a tokenizer: how many tokens that one adds to a text by itself. The slope is then 1.
    """

    def __init__(self, protocol: Protocol, known: Calibration | None = None, added: int | None = None) -> None:
        self._exact = added is not None
        self._guess = known or _GUESSES[protocol]
        if added is not None:
            template_tokens = _TEMPLATE_TOKENS if protocol == "openai-chat" else 0.0
            overhead_tokens = known.overhead_tokens if known is not None else added + template_tokens
            self._guess = Calibration(words_per_token=1.0, overhead_tokens=overhead_tokens)
        self._frozen = known is not None
        self._sums = [0.0] * 4  # of words, tokens, words², words × tokens
        self.requests = 0
        self.known = known is not None
        self.model = self._guess

    def words_for(self, tokens: int) -> int:
        """Words of a prompt that the server will count as about `tokens`."""
        return max(0, round((tokens - self.model.overhead_tokens) * self.model.words_per_token))

    def words_in(self, tokens: int) -> int:
        """Words of a text, a part of a prompt, that is about `tokens` long."""
        return round(tokens * self.model.words_per_token)

    def observe(self, words: int, prompt_tokens: int) -> None:
        if self._frozen or words < 1 or prompt_tokens < 1:
            return
        self.requests += 1
        for place, value in enumerate((words, prompt_tokens, words * words, words * prompt_tokens)):
            self._sums[place] += value
        self.model = self._fit()

    def freeze(self) -> None:
        self._frozen = True

    def _fit(self) -> Calibration:
        words, tokens, squares, products = (total / self.requests for total in self._sums)
        if self._exact:
            return Calibration(words_per_token=1.0, overhead_tokens=max(0.0, tokens - words))
        variance = squares - words * words
        if variance > 0 and math.sqrt(variance) >= _SPREAD_MIN * words:
            slope = (products - words * tokens) / variance
            overhead = tokens - slope * words
            if slope > 0 and overhead >= 0:
                return Calibration(words_per_token=1 / slope, overhead_tokens=overhead)
        overhead = min(self._guess.overhead_tokens, tokens / 2)
        return Calibration(words_per_token=words / (tokens - overhead), overhead_tokens=overhead)
