"""Frames that a relay and a runtime exchange inside a call's connection and that are no part of the call (continuity.proto).

A private WebSocket extension (RFC 6455 section 9): where both sides agreed on it, a whole binary frame with RSV3 set is an aside.
It is never forwarded and has no ordinal.
"""

from __future__ import annotations

from typing import Final

from runtime.wire.websocket_frames import build_frame

__all__ = ["ASIDE_EXTENSION", "ASIDE_FIRST_BYTE", "LONGEST_ASIDE_BYTES", "build_aside"]

ASIDE_EXTENSION: Final = "switchboard-aside"
ASIDE_FIRST_BYTE: Final = 0x92
"""FIN, RSV3, binary."""
LONGEST_ASIDE_BYTES: Final = 640 * 1024
"""A checkpoint's longest state, and room for what stands beside it."""


def build_aside(payload: bytes, mask_key: bytes = b"") -> bytes:
    """One whole aside. The relay's needs a `mask_key` of 4 bytes.

    >>> build_aside(b"ab").hex()
    '92026162'
    """
    return build_frame(ASIDE_FIRST_BYTE & 0x7F, payload, mask_key)
