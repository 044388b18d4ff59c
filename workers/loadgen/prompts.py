"""Makes request bodies: unique prompts of the dealt lengths, or a file's, and the turns that follow them. Every
conversation begins, after a shared prefix if the mix has one, with a nonce, so that no cache has seen it before.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from secrets import randbits

import msgspec

from workers.loadgen.answer import Answer, Outcome
from workers.loadgen.blocks import Blocks
from workers.loadgen.calibration import Calibrator
from workers.loadgen.conversations import Turn, continued, drawn_turns, opening, quoted
from workers.loadgen.deal import Dealt
from workers.loadgen.nonces import HexNonce, Nonce, WordNonce
from workers.loadgen.plan import Plan
from workers.loadgen.prompt_files import FileRow
from workers.loadgen.prompt_rows import FilePrompt
from workers.loadgen.traces import BLOCK_TOKENS, TraceRow
from workers.loadgen.words import PLAIN, Text, Vocabulary


class Prepared(msgspec.Struct, frozen=True):
    """A request ready to be sent. `words` counts a generated prompt's words, without a nonce of unknown cost (with a
    tokenizer: its tokens); 0 for a file's prompt and for a turn after the first.

    `planned_input_tokens` includes the shared prefix and, for a later turn, what was said before it. `later`: the
    turns that follow, each `think_s` after the answer; `content` is then the prompt that they continue.
    """

    dealt: Dealt
    request_id: str
    body: bytes
    words: int
    planned_input_tokens: int | None
    planned_output_tokens: int | None
    later: tuple[Turn, ...] = ()
    think_s: float = 0.0
    content: bytes = b""


class PromptMaker:
    """With a `vocabulary`, whose costs are tokens, prompts have exact lengths. `stage`: see Blocks."""

    def __init__(
        self,
        plan: Plan,
        calibrator: Calibrator,
        files: Mapping[int, Sequence[FileRow]],
        vocabulary: Vocabulary | None = None,
        stage: int = 0,
    ) -> None:
        self._name = os.urandom(4).hex()
        self._made = 0
        self._seed = plan.seed
        self._classes = plan.mix.classes
        self._text = Text(plan.seed, vocabulary or PLAIN)
        self._digits = HexNonce()
        self._nonce: Nonce = self._digits if vocabulary is None else WordNonce(vocabulary)
        self._blocks = Blocks(stage, self._text, vocabulary or PLAIN)
        # A text costs this less than its words with a space before each.
        self._start = 0 if vocabulary is None else vocabulary.start
        # Without its nonce a prompt may be empty only where the nonce is not among its words.
        self._words_min = 0 if vocabulary is None else 1
        self._calibrator = calibrator
        self._files = files
        self._chat = plan.protocol == "openai-chat"
        self._prefix_tokens = plan.mix.shared_prefix_tokens
        head = {"model": plan.model, "messages" if self._chat else "prompt": None}
        options = {"stream": True, "stream_options": {"include_usage": True}} | plan.request
        kept = {key: value for key, value in options.items() if value is not None}
        self._head = msgspec.json.encode(head).removesuffix(b"null}")
        self._tail = b"," + msgspec.json.encode(kept).removeprefix(b"{")

    def make(self, dealt: Dealt) -> Prepared:
        """Slices of a text and two encodings: microseconds, but for a trace's prompt of many blocks."""
        rows = self._files.get(dealt.class_index)
        if rows is None:
            assert dealt.input_tokens is not None
            return self._generated(dealt, dealt.input_tokens, dealt.output_tokens, self._unique_text)
        reading, place = divmod(dealt.place, len(rows))
        row = rows[place]
        return self._traced(dealt, row, reading) if isinstance(row, TraceRow) else self._written(dealt, row)

    def follow_up(self, prepared: Prepared, answer: Answer) -> Prepared | None:
        """The next turn, which says all that was said before; null where none follows, and after a failure."""
        if not prepared.later or answer.outcome is not Outcome.OK:
            return None
        turn, *later = prepared.later
        if turn.text is not None:
            text = quoted(turn.text)
        else:
            assert turn.input_tokens is not None
            # A chat's turn is a text of its own; a completion's goes on after a space.
            words = max(1, self._calibrator.words_in(turn.input_tokens)) - (self._start if self._chat else 0)
            text = self._text.cut(randbits(32), words).rstrip()
        content = continued(prepared.content, answer.said, text)
        output_tokens = turn.output_tokens or prepared.dealt.output_tokens
        input_tokens = _total(
            prepared.planned_input_tokens if answer.prompt_tokens is None else answer.prompt_tokens,
            _tokens_said(answer),
            turn.input_tokens,
        )
        return self._prepared(prepared.dealt, content, 0, input_tokens, output_tokens, tuple(later))

    def _generated(
        self, dealt: Dealt, input_tokens: int, output_tokens: int | None, own_text: Callable[[int], bytes]
    ) -> Prepared:
        """`own_text` makes what follows the shared prefix, of so many words."""
        input_tokens += self._prefix_tokens
        words = max(self._words_min, self._calibrator.words_for(input_tokens))
        # Overhead (template and, without a tokenizer, nonce) is counted once, in the whole prompt: not in the prefix.
        own_words = words - self._start
        prefix_words = min(own_words, self._calibrator.words_in(self._prefix_tokens))
        text = self._text.cut(0, prefix_words) + own_text(own_words - prefix_words)
        later = drawn_turns(self._classes[dealt.class_index], self._seed, dealt.place)
        return self._prepared(dealt, opening(text.rstrip(), self._chat), words, input_tokens, output_tokens, later)

    def _traced(self, dealt: Dealt, row: TraceRow, reading: int) -> Prepared:
        own_text = self._unique_text
        if row.block_ids:
            own_text = partial(self._blocks.joined, row.block_ids, reading, self._calibrator.words_in(BLOCK_TOKENS))
        return self._generated(dealt, row.input_tokens, row.output_tokens, own_text)

    def _written(self, dealt: Dealt, row: FilePrompt) -> Prepared:
        nonce, _ = self._digits.make(0)
        content = row.before + nonce + row.after
        return self._prepared(dealt, content, 0, None, row.output_tokens or dealt.output_tokens, row.later)

    def _unique_text(self, words: int) -> bytes:
        nonce, cost = self._nonce.make(words)
        return nonce + self._text.cut(randbits(32), words - cost)

    def _prepared(
        self,
        dealt: Dealt,
        content: bytes,
        words: int,
        input_tokens: int | None,
        output_tokens: int | None,
        later: tuple[Turn, ...],
    ) -> Prepared:
        # Of this process, and counted: a log of a million random names would be half names.
        request_id = f"{self._name}{self._made:08x}"
        self._made = (self._made + 1) & 0xFFFFFFFF
        limit = b',"max_tokens":%d' % output_tokens if output_tokens is not None else b""
        body = self._head + content + limit + self._tail
        think_s = self._classes[dealt.class_index].think_s
        kept = content if later else b""
        return Prepared(dealt, request_id, body, words, input_tokens, output_tokens, later, think_s, kept)


class PreparedRequests:
    """Requests in the dealt order, made before they are due; at most `limit` of them (null: endless)."""

    def __init__(self, dealt: Iterator[Dealt], maker: PromptMaker, ahead: int, limit: int | None) -> None:
        self._dealt = dealt
        self._maker = maker
        self._ahead = ahead
        self._left = limit
        self._ready: deque[Prepared] = deque()
        self.refill()

    def refill(self) -> None:
        while len(self._ready) < self._ahead:
            self._ready.append(self._maker.make(next(self._dealt)))

    def remake(self) -> None:
        """With what the calibration knows now."""
        self._ready = deque(self._maker.make(prepared.dealt) for prepared in self._ready)

    def take(self) -> Prepared | None:
        """Null when the limit is reached."""
        if self._left is not None:
            if self._left == 0:
                return None
            self._left -= 1
        if not self._ready:
            self.refill()
        return self._ready.popleft()

    def follow_up(self, prepared: Prepared, answer: Answer) -> Prepared | None:
        """The next turn of the same conversation, which counts as a request; null where none follows."""
        if self._left == 0:
            return None
        following = self._maker.follow_up(prepared, answer)
        if following is not None and self._left is not None:
            self._left -= 1
        return following


def _tokens_said(answer: Answer) -> int | None:
    """Thoughts are not said again."""
    return None if answer.output_tokens is None else max(0, answer.output_tokens - (answer.reasoning_tokens or 0))


def _total(*tokens: int | None) -> int | None:
    known = [one for one in tokens if one is not None]
    return sum(known) if len(known) == len(tokens) else None
