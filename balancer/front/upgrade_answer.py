"""A runtime's answer to an upgrade, read from bytes. Pure and strict: what is not exactly a whole HTTP/1.1 head is refused.

Only the relay's own runtimes are read here. A general parser costs a tenth of a millisecond a call, which is a third of what it
takes to set one up (perf.bench.relay --peers).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

__all__ = ["BadAnswer", "UpgradeAnswer", "read_answer"]

_LONGEST_HEAD: Final = 16_384
_STATUS_LINE: Final = re.compile(rb"HTTP/1\.1 ([1-5][0-9]{2})(?: [\t -~\x80-\xff]*)?")
_HEADER: Final = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]+):[ \t]*((?:[!-~\x80-\xff]+(?:[ \t]+[!-~\x80-\xff]+)*)?)[ \t]*")


class BadAnswer(Exception):
    """It is no HTTP/1.1 response head, or too long for one."""


@dataclass(frozen=True, slots=True)
class UpgradeAnswer:
    """`headers`: names in lower case. `early`: what came behind the head."""

    status: int
    headers: Mapping[bytes, bytes]
    early: bytes


def read_answer(received: bytes) -> UpgradeAnswer | None:
    """None: the head is not whole yet. Raises BadAnswer.

    >>> read_answer(b"HTTP/1.1 101 Switching Protocols\\r\\nUpgrade: websocket\\r\\n\\r\\nx")
    UpgradeAnswer(status=101, headers={b'upgrade': b'websocket'}, early=b'x')
    """
    end = received.find(b"\r\n\r\n")
    if end < 0 or end > _LONGEST_HEAD:
        if len(received) > _LONGEST_HEAD:
            raise BadAnswer(f"a head of more than {_LONGEST_HEAD} bytes")
        return None
    first, *lines = received[:end].split(b"\r\n")
    status = _STATUS_LINE.fullmatch(first)
    if status is None:
        raise BadAnswer("no HTTP/1.1 status line")
    headers: dict[bytes, bytes] = {}
    for line in lines:
        header = _HEADER.fullmatch(line)
        if header is None:
            raise BadAnswer("a line that is no header")
        name = header[1].lower()
        headers[name] = headers[name] + b", " + header[2] if name in headers else header[2]
    return UpgradeAnswer(int(status[1]), headers, received[end + 4 :])
