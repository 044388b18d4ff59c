"""The text that prompts are cut from: short common English words in a seeded order, measured by what they cost.

Knows no tokenizer: what a word costs is given, and by default each costs one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from random import Random

_TEXT = """
a I of to in is it be as at so we he by or on do if me my up an go no us am
the and for are but not you all any can had her was one our out day get has him his how man new now old see
two way who boy did its let put say she too use about after again air also always another around ask away back
because been before began being below between big book both bring build call came car carry change children
city close cold come could country cut does door down draw during each earth east easy eat end enough even
every example eye face family far farm fast father feet few field find fire first fish five follow food form
found four free friend from full game gave girl give good great green ground group grow half hand hard have
head hear help here high home horse hour house idea inside into just keep kind king knew know land large last
late learn leave left letter life light like line list little live long look made make many map mark mean men
might mile milk mind money moon more morning most mother mountain move much music must name near need never
next night north note number off often once only open order other own page paper part people picture place
plan plant play point power question quick rain read ready red rest right river road rock room run said same
saw school sea second seem sentence ship short should show side simple since sing sleep slow small snow some
song soon sound south space stand star start state stay step still stop story street strong study such sun
sure table take talk tell than that their them then there these they thing think this those though thought
three through time together told took top toward town travel tree true try turn under until upon very voice
wait walk want warm watch water well went were west what wheel when where which while white whole why will
wind with without wood word work world would write year young your
"""
WORDS = tuple(_TEXT.split())
_POOL = 65_536


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Words, and what each costs after a space. A text costs its words' sum and `start`, which is -1 where a space
    costs one by itself: a text's first word has none.
    """

    words: Sequence[str]
    costs: Sequence[int]
    start: int = 0


PLAIN = Vocabulary(WORDS, [1] * len(WORDS))


class Text:
    """One long text, which repeats beyond its end."""

    def __init__(self, seed: int, vocabulary: Vocabulary = PLAIN) -> None:
        chosen = Random(f"{seed} text").choices(range(len(vocabulary.words)), k=_POOL)
        words = [vocabulary.words[place].encode() + b" " for place in chosen]
        self._joined = b"".join(words)
        self._costs = [vocabulary.costs[place] for place in chosen]
        self._offsets = [0, *accumulate(len(word) for word in words)]
        self._sums = [0, *accumulate(self._costs)]
        self._total = self._sums.pop()
        self._fills = _fills(vocabulary)

    def cut(self, start: int, cost: int) -> bytes:
        """Words, from the `start`th on, that cost exactly so much, or the next less that any words cost; each is
        followed by a space. Cheap: a search and a slice.
        """
        start %= _POOL
        rounds, rest = divmod(self._sums[start] + cost, self._total)
        end = bisect_right(self._sums, rest) - 1
        missing = rest - self._sums[end]
        end += rounds * _POOL
        while end > start and missing not in self._fills and missing < len(self._fills):
            end -= 1
            missing += self._costs[end % _POOL]
        while missing not in self._fills:
            missing -= 1
        return self._slice(start, end) + self._fills[missing]

    def _slice(self, start: int, end: int) -> bytes:
        rounds, end = divmod(end, _POOL)
        if rounds == 0:
            return self._joined[self._offsets[start] : self._offsets[end]]
        return self._joined[self._offsets[start] :] + self._joined * (rounds - 1) + self._joined[: self._offsets[end]]


def _fills(vocabulary: Vocabulary) -> dict[int, bytes]:
    """{cost: words that cost exactly so much}. From the square of the dearest word's on every cost can be made, if
    their costs have no common divisor (Schur's bound on the Frobenius number).
    """
    by_cost = {cost: word.encode() + b" " for cost, word in zip(vocabulary.costs, vocabulary.words, strict=True)}
    dearest = max(by_cost)
    fills = {0: b""}
    for cost in range(1, dearest * dearest + dearest):
        for one, word in by_cost.items():
            if cost - one in fills:
                fills[cost] = fills[cost - one] + word
                break
    return fills
