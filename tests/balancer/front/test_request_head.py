"""Request heads: what is read, what is refused, and that h11 reads all that is accepted in the same way."""

from __future__ import annotations

import h11
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from balancer.front.request_head import BadHead, RequestHead, can_begin, read_head

UPGRADE = (
    b"GET /v1/realtime?model=a HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: keep-alive, Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\nX-A:  two  words \t\r\nX-B:\r\n\r\n"
)


def test_a_head_is_read_as_it_was_spelled() -> None:
    head = read_head(UPGRADE)
    assert (head.method, head.target, head.version) == (b"GET", b"/v1/realtime?model=a", b"1.1")
    assert head.fields[-2:] == [(b"X-A", b"two  words"), (b"X-B", b"")]
    assert head.values[b"connection"] == [b"keep-alive, Upgrade"]
    assert head.body_bytes == 0


def test_the_body_is_as_long_as_is_said() -> None:
    assert read_head(b"POST / HTTP/1.1\r\nHost: x\r\ncontent-LENGTH: 012\r\n\r\n").body_bytes == 12


def test_an_old_client_needs_no_host() -> None:
    assert read_head(b"GET /healthz HTTP/1.0\r\n\r\n").version == b"1.0"


@pytest.mark.parametrize(
    ("line", "header", "words"),
    [
        (b"GET / HTTP/1.1", b"", "Host is missing"),
        (b"GET / HTTP/1.1", b"Host: x\r\nhost: x\r\n", "Host is given twice"),
        (b"GET / HTTP/2.0", b"Host: x\r\n", "request line"),
        (b"GET / HTTP/1.2", b"Host: x\r\n", "request line"),
        (b"GET  / HTTP/1.1", b"Host: x\r\n", "request line"),
        (b"GET / HTTP/1.1 ", b"Host: x\r\n", "request line"),
        (b" GET / HTTP/1.1", b"Host: x\r\n", "request line"),
        (b"\r\nGET / HTTP/1.1", b"Host: x\r\n", "request line"),
        (b"GET /\xc3\xa4 HTTP/1.1", b"Host: x\r\n", "request line"),
        (b"G@T / HTTP/1.1", b"Host: x\r\n", "request line"),
        (b"GET / HTTP/1.1", b"Host: x\r\nno colon\r\n", "header"),
        (b"GET / HTTP/1.1", b"Host: x\r\nA : b\r\n", "header"),
        (b"GET / HTTP/1.1", b"Host: x\r\n: b\r\n", "header"),
        (b"GET / HTTP/1.1", b"Host: x\r\n folded: b\r\n", "header"),
        (b"GET / HTTP/1.1", b"Host: x\r\nA: b\x01\r\n", "header"),
        (b"GET / HTTP/1.1", b"Host: x\r\nA: b\x7f\r\n", "header"),
        (b"GET / HTTP/1.1", b"Host: x\r\nA: b\nB: c\r\n", "header"),
        (b"GET / HTTP/1.1", b"Host: x\r\nA: b\rB: c\r\n", "header"),
        (b"GET / HTTP/1.1", b"Host: x\r\nContent-Length: 1\r\nContent-Length: 1\r\n", "twice"),
        (b"GET / HTTP/1.1", b"Host: x\r\nContent-Length: -1\r\n", "number of bytes"),
        (b"GET / HTTP/1.1", b"Host: x\r\nContent-Length: 1, 1\r\n", "number of bytes"),
        (b"GET / HTTP/1.1", b"Host: x\r\nContent-Length:\r\n", "number of bytes"),
        (b"GET / HTTP/1.1", b"Host: x\r\nContent-Length: " + b"9" * 5_000 + b"\r\n", "number of bytes"),
    ],
)
def test_what_is_not_exactly_a_head_is_refused(line: bytes, header: bytes, words: str) -> None:
    with pytest.raises(BadHead, match=words):
        read_head(line + b"\r\n" + header + b"\r\n")


def test_a_head_without_its_end_is_none() -> None:
    for end in range(1, len(UPGRADE)):
        with pytest.raises(BadHead):
            read_head(UPGRADE[:end])
    with pytest.raises(BadHead):
        read_head(UPGRADE + b"x")


def test_a_request_begins_with_a_method() -> None:
    assert [byte for byte in range(256) if can_begin(byte)] == sorted(b"!#$%&'*+-.^_`|~" + bytes(
        byte for byte in range(128) if chr(byte).isalnum()
    ))  # fmt: skip


# Against h11


def _theirs(head: bytes) -> h11.Request:
    reader = h11.Connection(h11.SERVER, max_incomplete_event_size=1 << 20)
    reader.receive_data(head)
    event = reader.next_event()
    assert isinstance(event, h11.Request), "h11 wants more of what we take for whole"
    return event


def _same(ours: RequestHead, theirs: h11.Request) -> None:
    assert (ours.method, ours.target, ours.version) == (theirs.method, theirs.target, theirs.http_version)
    assert list(ours.fields) == list(theirs.headers.raw_items())
    lower = [(name.lower(), value) for name, value in ours.fields]
    assert [(name, value) for name, values in ours.values.items() for value in values] == sorted(
        lower, key=lambda field: list(ours.values).index(field[0])
    )
    lengths = [value for name, value in theirs.headers if name == b"content-length"]
    assert ours.body_bytes == sum(int(length) for length in lengths)


_PIECES = st.sampled_from([
    b"GET", b"POST", b" ", b"  ", b"/", b"/v1/realtime?a=b", b"HTTP/1.1", b"HTTP/1.0", b"HTTP/0.9", b"\r\n", b"\n", b"\r", b"\t",
    b":", b": ", b"Host", b"host", b"x", b"Content-Length", b"5", b"+5", b"0x5", b"5, 5", b"Transfer-Encoding", b"chunked",
    b"\x00", b"\x0b", b"\x7f", b"\x80", b"\xff", b"Upgrade", b"websocket", b"\"", b"(", b"\\", b"\xc2\xa0", b",",
])  # fmt: skip
_WILD = st.one_of(_PIECES, st.binary(max_size=3))


@st.composite
def _mutated(draw: st.DrawFn) -> bytes:
    """A good head in which a few places were overwritten, cut or stretched."""
    head = UPGRADE[:-2]
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(head)))
        head = head[:at] + draw(_WILD) + head[at + draw(st.integers(0, 6)) :]
    return head + b"\r\n"


@given(st.one_of(_mutated(), st.lists(_WILD, max_size=30).map(lambda pieces: b"".join(pieces) + b"\r\n\r\n")))
@example(b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n")
def test_what_is_accepted_h11_reads_in_the_same_way(head: bytes) -> None:
    whole = head[: head.find(b"\r\n\r\n") + 4] if b"\r\n\r\n" in head else head
    try:
        ours = read_head(whole)
    except BadHead:
        return
    if b"transfer-encoding" in ours.values:
        return  # refused one step later, whatever it says
    _same(ours, _theirs(whole))


_NAMES = st.text("!#$%&'*+-.^_`|~0123456789abcXYZ", min_size=1, max_size=12).map(str.encode)
_VALUE_BYTES = [9, *range(32, 127), *range(128, 256)]
_VALUES = st.lists(st.sampled_from(_VALUE_BYTES), max_size=20).map(lambda value: bytes(value).strip(b" \t"))


@given(
    method=_NAMES,
    target=st.lists(st.integers(33, 126), min_size=1, max_size=20).map(bytes),
    fields=st.lists(st.tuples(_NAMES, st.sampled_from([b"", b" ", b" \t "]), _VALUES, st.sampled_from([b"", b" "])), max_size=6),
)
def test_every_good_head_is_accepted(method: bytes, target: bytes, fields: list[tuple[bytes, bytes, bytes, bytes]]) -> None:
    lines = [b"%b:%b%b%b\r\n" % field for field in fields]
    head = b"%b %b HTTP/1.1\r\nHost: x\r\n%b\r\n" % (method, target, b"".join(lines))
    ours = read_head(head)
    assert list(ours.fields)[1:] == [(name, value) for name, _, value, _ in fields]
    _same(ours, _theirs(head))
