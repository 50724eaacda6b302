"""The frame of an aside is what a WebSocket library with the extension reads, masked or not."""

from __future__ import annotations

import pytest

from runtime.wire.asides import ASIDE_FIRST_BYTE, build_aside


@pytest.mark.parametrize("size", [0, 125, 126, 65_535, 65_536])
@pytest.mark.parametrize("key", [b"", b"\x01\x02\x03\x04"])
def test_an_aside_is_a_whole_binary_frame_with_its_bit(size: int, key: bytes) -> None:
    frame = build_aside(bytes(size), key)
    assert frame[0] == ASIDE_FIRST_BYTE == 0x80 | 0x10 | 0x02
    assert bool(frame[1] & 0x80) is bool(key)
    assert len(frame) - size - len(key) == (2 if size < 126 else 4 if size < 65_536 else 10)
