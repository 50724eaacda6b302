"""Bytes in a request's head that two HTTP readers could take differently. Whoever sends them is refused, whatever they mean.

RFC 9112 lets a server forgive some of it (sections 2.2, 5.2, 6.3). The public port does not: another server may stand in front
of it. `request_head.py` takes none of it either; here it is named, and refused before the head is whole.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["head_fault"]

_AMBIGUOUS: Final = re.compile(rb"(?P<lf>(?<!\r)\n)|(?P<cr>\r[^\n])|(?P<fold>\n[ \t])|(?P<nul>\x00)")
_TEXTS: Final = {
    "lf": "a line ends in LF alone",
    "cr": "a CR without its LF",
    "fold": "a header goes on in the next line",
    "nul": "a NUL byte",
}
_LENGTH: Final = re.compile(rb"\ncontent-length[ \t]*:", re.IGNORECASE)


def head_fault(received: bytes | bytearray, seen: int) -> str:
    """What is wrong with the head of the request that `received` begins with, so far; empty: nothing. `seen`: how many of the
    bytes were looked at before.

    >>> head_fault(b"GET / HTTP/1.1\\r\\nHost: a\\n", 0)
    'a line ends in LF alone'
    """
    over = received.find(b"\r\n\r\n", max(0, seen - 3))
    end = len(received) if over < 0 else over + 4
    found = _AMBIGUOUS.search(received, max(0, seen - 1), end)
    if found is not None:
        assert found.lastgroup is not None
        return _TEXTS[found.lastgroup]
    if over >= 0 and len(_LENGTH.findall(received, 0, end)) > 1:
        return "Content-Length is given twice"
    return ""
