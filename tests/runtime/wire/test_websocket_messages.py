"""Messages out of frames, beside a WebSocket library that makes them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from websockets.frames import Frame, Opcode

from runtime.wire.websocket_frames import FrameBorders
from runtime.wire.websocket_messages import read_messages

_PAYLOADS = st.sampled_from([0, 1, 125, 126, 300, 65_535, 65_536]).map(lambda size: bytes(number % 251 for number in range(size)))


@given(st.lists(st.lists(_PAYLOADS, min_size=1, max_size=3), max_size=4), st.booleans(), st.integers(1, 5000))
def test_all_that_was_said_is_read_however_it_was_cut(said: list[list[bytes]], is_masked: bool, step: int) -> None:
    stream = b""
    for fragments in said:
        for number, payload in enumerate(fragments):
            opcode = Opcode.CONT if number else Opcode.TEXT
            stream += Frame(opcode, payload, fin=number == len(fragments) - 1).serialize(mask=is_masked)
    borders = FrameBorders(is_masked=is_masked, max_frame_bytes=1_000_000)
    read: list[bytes] = []
    rest = b""
    for start in range(0, len(stream), step):
        messages, rest = read_messages(rest + borders.feed(stream[start : start + step]))
        read += messages
    assert read == [b"".join(fragments) for fragments in said]
    assert rest == b""
