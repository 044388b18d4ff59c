from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.loadgen import sse
from workers.loadgen.sse import Event, EventSplitter

PIECES = [
    b"data: a",
    b"data:b",
    b"data",
    b"event: error",
    b": ping",
    b"id: 7",
    b"\n",
    b"\r\n",
    b"\r",
    b"\n\n",
    b"\xef\xbb\xbf",
    "é".encode(),
]


def split(*parts: bytes) -> list[Event]:
    splitter = EventSplitter()
    events = [event for part in parts for event in splitter.feed(part)]
    last = splitter.finish()
    return events + ([last] if last else [])


@given(st.lists(st.sampled_from(PIECES), max_size=30).map(b"".join), st.data())
def test_any_cut_of_the_bytes_gives_the_same_events(stream: bytes, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=10)))
    parts = [stream[start:end] for start, end in pairwise([0, *cuts, len(stream)])]
    assert split(*parts) == split(stream)
    assert split(*(stream[place : place + 1] for place in range(len(stream)))) == split(stream)


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_an_event_is_there_as_soon_as_its_blank_line_is(end: bytes) -> None:
    splitter = EventSplitter()
    assert splitter.feed(b"data: a" + end) == []
    assert splitter.feed(end[:1]) == [(b"", b"a")]
    assert splitter.feed(end[1:] + b"data: b" + end + end) == [(b"", b"b")]


def test_fields_follow_the_specification() -> None:
    stream = b"\xef\xbb\xbf:\n\n: keep-alive\n\nevent: message\r\nid: 7\r\nretry: 3\r\ndata:{A\r\n\r\n"
    stream += b"data: {\ndata:  B}\n\ndata\n\n"
    assert split(stream) == [(b"message", b"{A"), (b"", b"{\n B}"), (b"", b"")]


def test_the_last_event_needs_no_blank_line_once_the_stream_has_ended() -> None:
    assert split(b"data: a\n\ndata: [DONE]") == [(b"", b"a"), (b"", b"[DONE]")]


def test_an_event_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "EVENT_BYTES_MAX", 100)
    with pytest.raises(sse.EventTooLong):
        split(*[b"data: aaaaaaaaaa"] * 20)
