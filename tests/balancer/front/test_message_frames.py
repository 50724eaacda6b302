"""Messages as frames: what the relay's own reader of frames makes of them, and back."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from balancer.front.message_frames import client_frame, server_frames
from runtime.wire.websocket_frames import CLOSE, PING, FrameBorders, build_frame

_SIZES = st.sampled_from([0, 1, 125, 126, 127, 640, 65_535, 65_536, 70_000])


@given(st.lists(_SIZES, min_size=1, max_size=4))
def test_a_message_is_one_whole_client_frame(sizes: list[int]) -> None:
    borders = FrameBorders(is_masked=True, max_frame_bytes=70_000)
    frames = [client_frame(bytes([number + 1]) * size) for number, size in enumerate(sizes)]
    assert frames == [build_frame(2, bytes([number + 1]) * size, bytes(4)) for number, size in enumerate(sizes)]
    assert [borders.feed(frame) for frame in frames] == frames
    assert borders.failure is None
    assert borders.messages == len(sizes)


@given(st.lists(st.tuples(st.sampled_from([2, PING, CLOSE]), _SIZES), max_size=6))
def test_each_server_frame_is_told_with_its_kind(asked: list[tuple[int, int]]) -> None:
    frames = [(opcode, bytes([number]) * (min(size, 125) if opcode & 8 else size)) for number, (opcode, size) in enumerate(asked)]
    together = b"".join(build_frame(opcode, payload) for opcode, payload in frames)
    assert list(server_frames(together)) == frames
