"""A caller's request head, read from bytes: the one parser of the public port. Pure, and stricter than RFC 9112 asks.

    method SP target SP HTTP/1.0 or 1.1 CRLF *( name ":" OWS value OWS CRLF ) CRLF

Another server may stand in front of us: whatever two readers could take differently is refused, never repaired (record 5).
Whatever is accepted here, h11 reads in the very same way; tests hold the two against each other.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

__all__ = ["BadHead", "RequestHead", "can_begin", "read_head"]

_TOKEN: Final = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]"
_REQUEST_LINE: Final = re.compile(rb"(" + _TOKEN + rb"++) ([!-~]++) HTTP/(1\.[01])\r\n")
_FIELD: Final = re.compile(rb"(" + _TOKEN + rb"++):[ \t]*+([\t -~\x80-\xff]*+)\r\n")
"""Possessive: whatever does not fit is found out in one pass."""
_LONGEST_LENGTH: Final = 15  # digits of a Content-Length: far above any body that is taken


class BadHead(Exception):
    """It is not exactly a request head; `str` says what is wrong, and nothing of what was sent."""


@dataclass(frozen=True, slots=True)
class RequestHead:
    """`fields`: names as they were spelled, values without the white space around them. `values`: by name in lower case."""

    method: bytes
    target: bytes
    version: bytes
    fields: Sequence[tuple[bytes, bytes]]
    values: Mapping[bytes, Sequence[bytes]]
    body_bytes: int
    """By its Content-Length; 0 without one."""


def can_begin(first: int) -> bool:
    """Whether a request may begin with this byte."""
    return chr(first).isascii() and (chr(first).isalnum() or first in b"!#$%&'*+-.^_`|~")


def read_head(head: bytes) -> RequestHead:
    """`head` ends with the empty line. Raises BadHead.

    >>> read_head(b"GET /x HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n").values
    {b'host': [b'a']}
    """
    line = _REQUEST_LINE.match(head)
    if line is None:
        raise BadHead("the request line is not valid HTTP/1.1")
    fields: list[tuple[bytes, bytes]] = []
    values: dict[bytes, list[bytes]] = {}
    at, end = line.end(), len(head) - 2
    while at < end:
        found = _FIELD.match(head, at)
        if found is None:
            raise BadHead("a header is not valid HTTP/1.1")
        name, value = found.groups()
        value = value.rstrip(b" \t")
        fields.append((name, value))
        values.setdefault(name.lower(), []).append(value)
        at = found.end()
    if at != end or head[end:] != b"\r\n":
        raise BadHead("the head does not end in an empty line")
    method, target, version = line.groups()
    hosts = len(values.get(b"host", ()))
    if hosts > 1:
        raise BadHead("Host is given twice")
    if not hosts and version == b"1.1":
        raise BadHead("Host is missing")
    return RequestHead(method, target, version, fields, values, _body_bytes(values))


def _body_bytes(values: Mapping[bytes, Sequence[bytes]]) -> int:
    lengths = values.get(b"content-length")
    if lengths is None:
        return 0
    if len(lengths) > 1:
        raise BadHead("Content-Length is given twice")
    if not lengths[0].isdigit() or len(lengths[0]) > _LONGEST_LENGTH:
        raise BadHead("Content-Length is not a number of bytes")
    return int(lengths[0])
