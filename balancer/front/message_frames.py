"""Messages of a wire that has borders of its own, as WebSocket frames: one whole binary frame each (RFC 6455 section 5). Pure.

So a caller who comes over gRPC looks to a relay like any other. The frames of such a client are masked by zeros: they go from us
to a runtime of ours, so there is no cache on the way that unpredictable masks would have to protect.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

__all__ = ["client_frame", "server_frames"]

_BINARY: Final = 0x82
_MASKED: Final = 0x80
_NO_MASK: Final = bytes(4)
_MIDDLE: Final = bytes((_BINARY, _MASKED | 126))


def client_frame(message: bytes) -> bytes:
    """One message of a client.

    >>> client_frame(b"ab").hex(), len(client_frame(bytes(126))), len(client_frame(bytes(65536)))
    ('8282000000006162', 134, 65550)
    """
    length = len(message)
    if 126 <= length < 65_536:  # by far the most frequent: 20 ms of audio
        return b"%b%c%c%b%b" % (_MIDDLE, length >> 8, length & 0xFF, _NO_MASK, message)
    if length < 126:
        return bytes((_BINARY, _MASKED | length)) + _NO_MASK + message
    return bytes((_BINARY, _MASKED | 127)) + length.to_bytes(8, "big") + _NO_MASK + message


def server_frames(frames: bytes) -> Iterator[tuple[int, bytes]]:
    """(opcode, payload) of each. `frames` are whole, valid, unmasked and unfragmented: they went through `FrameBorders`, or are
    the relay's own.

    >>> list(server_frames(bytes.fromhex("82026162" + "8900")))
    [(2, b'ab'), (9, b'')]
    """
    at, size = 0, len(frames)
    while at < size:
        opcode, length = frames[at] & 0x0F, frames[at + 1]
        at += 2
        if length == 126:
            length = frames[at] << 8 | frames[at + 1]
            at += 2
        elif length == 127:
            length = int.from_bytes(frames[at : at + 8], "big")
            at += 8
        yield opcode, frames[at : at + length]
        at += length
