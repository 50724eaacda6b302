"""Heads that two readers could take differently, however they are split."""

from __future__ import annotations

import pytest

from balancer.front.head_check import head_fault

START = b"POST /v1/assignments HTTP/1.1\r\nHost: x\r\n"


def fault(data: bytes, size: int) -> str:
    """The first fault when the bytes come in pieces of `size`."""
    received = bytearray()
    for at in range(0, len(data), size):
        seen = len(received)
        received += data[at : at + size]
        found = head_fault(received, seen)
        if found or b"\r\n\r\n" in received:  # what comes behind the head is not looked at any more
            return found
    return ""


@pytest.mark.parametrize("size", [1, 2, 3, 7, 10_000])
@pytest.mark.parametrize(
    ("data", "words"),
    [
        (START + b"A: b\r\n\r\n", ""),
        (START + b"Content-Length: 12\r\n\r\n{\n\r \x00\n\tb\r\nc", ""),  # a body may hold anything
        (START + b"A: b\n\r\n", "LF alone"),
        (b"GET / HTTP/1.1\n\n", "LF alone"),
        (START + b"A: b\rB: c\r\n\r\n", "CR without"),
        (START + b"A: b\r\r\n\r\n", "CR without"),
        (START + b"A: b\r\n c\r\n\r\n", "next line"),
        (START + b"A: b\r\n\tc\r\n\r\n", "next line"),
        (START + b"A: b\x00c\r\n\r\n", "NUL"),
        (START + b"Content-Length: 5\r\ncontent-length: 5\r\n\r\nhello", "twice"),
    ],
)
def test_what_is_ambiguous_is_named_however_it_is_split(data: bytes, words: str, size: int) -> None:
    found = fault(data, size)
    assert words in found
    assert bool(found) is bool(words)
