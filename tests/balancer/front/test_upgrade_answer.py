"""A runtime's answer is a whole HTTP/1.1 head or nothing; how it was cut does not matter."""

from __future__ import annotations

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st

from balancer.front.upgrade_answer import BadAnswer, UpgradeAnswer, read_answer

_HEAD = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nX-Empty:\r\nx-two: a\r\nX-TWO:\t b \r\n\r\n"


def test_every_cut_of_a_head_is_the_same_head() -> None:
    whole = UpgradeAnswer(101, {b"upgrade": b"websocket", b"x-empty": b"", b"x-two": b"a, b"}, b"\x81\x00")
    for cut in range(len(_HEAD)):
        assert read_answer(_HEAD[:cut]) is None
    assert read_answer(_HEAD + b"\x81\x00") == whole


@pytest.mark.parametrize(
    "received",
    [
        b"HTTP/1.0 101 Old\r\n\r\n",
        b"HTTP/1.1 1010 Long\r\n\r\n",
        b"HTTP/1.1 101\nUpgrade: websocket\r\n\r\n",
        b"HTTP/1.1 101 OK\r\n folded: line\r\n\r\n",
        b"HTTP/1.1 101 OK\r\nname : value\r\n\r\n",
        b"HTTP/1.1 101 OK\r\nname\r\n\r\n",
        b"HTTP/1.1 101 OK\r\nname: a\x00b\r\n\r\n",
        b"HTTP/1.1 101 OK\r\nname: a\nother: b\r\n\r\n",
        b"SSH-2.0-x\r\n\r\n",
        b"x" * 20_000,
        b"HTTP/1.1 101 OK\r\nname: " + b"x" * 20_000,
    ],
)
def test_anything_else_is_refused(received: bytes) -> None:  # bug group H
    with pytest.raises(BadAnswer):
        read_answer(received)


_NAMES = st.from_regex(rb"[a-z][a-z0-9-]{0,10}", fullmatch=True)
_VALUES = st.from_regex(rb"[!-~]{1,8}( [!-~]{1,8}){0,3}", fullmatch=True)


@given(st.integers(200, 599), st.lists(st.tuples(_NAMES, _VALUES), max_size=6, unique_by=lambda header: header[0]))
def test_what_a_general_parser_reads_is_read_alike(status: int, headers: list[tuple[bytes, bytes]]) -> None:
    reserved = {b"content-length", b"transfer-encoding", b"connection", b"host"}
    headers = [header for header in headers if header[0] not in reserved]
    sent = h11.Connection(h11.SERVER)
    sent.receive_data(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    sent.next_event()
    head = sent.send(h11.Response(status_code=status, headers=[*headers, (b"content-length", b"0")]))
    assert head is not None
    answer = read_answer(head)
    assert answer is not None
    assert answer.status == status
    assert {name: answer.headers[name] for name, _ in headers} == dict(headers)


@given(st.binary(max_size=200))
def test_bytes_never_bring_anything_else(received: bytes) -> None:
    try:
        answer = read_answer(received + b"\r\n\r\n")
    except BadAnswer:
        return
    assert answer is not None
