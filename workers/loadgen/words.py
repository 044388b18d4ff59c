"""The text that prompts are cut from: short common English words, in a seeded order."""

from __future__ import annotations

from random import Random

_TEXT = """
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


class Text:
    """`cut(start, words)` is that many words of one long text, which repeats beyond its end; cheap, a slice."""

    def __init__(self, seed: int) -> None:
        chosen = Random(f"{seed} text").choices(WORDS, k=_POOL)
        self._joined = (" ".join(chosen) + " ").encode()
        self._offsets = [0]
        for word in chosen:
            self._offsets.append(self._offsets[-1] + len(word) + 1)

    def cut(self, start: int, words: int) -> bytes:
        """Each word is followed by a space."""
        start %= _POOL
        rounds, end = divmod(start + words, _POOL)
        if rounds == 0:
            return self._joined[self._offsets[start] : self._offsets[end]]
        return self._joined[self._offsets[start] :] + self._joined * (rounds - 1) + self._joined[: self._offsets[end]]
