"""The caller's messages, however they are cut, kept, trimmed and pushed out: what is given back is exactly what is needed."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from balancer.continuity.kept_messages import KeptMessages
from runtime.primitives.clock import NS_PER_S
from runtime.wire.websocket_frames import PING, FrameBorders, build_frame

KEY = b"\x01\x02\x03\x04"
ROOMY = 10**9
AGES = 10**18


def message(number: int, size: int, parts: int = 1) -> bytes:
    """One message in so many fragments, its number in every payload."""
    frames = []
    for part in range(parts):
        frame = bytearray(build_frame(2 if part == 0 else 0, f"{number}.{part}".encode().ljust(size, b"_"), KEY))
        if part < parts - 1:
            frame[0] &= 0x7F
        frames.append(bytes(frame))
    return b"".join(frames)


made = st.lists(st.tuples(st.sampled_from([3, 20, 125, 126, 400, 70_000]), st.integers(1, 3)), min_size=1, max_size=12)


def keep(kept: KeptMessages, stream: bytes, cuts: list[int]) -> None:
    """As the relay does."""
    borders = FrameBorders(is_masked=True, max_frame_bytes=10**6)
    edges = sorted({0, len(stream), *(cut % (len(stream) + 1) for cut in cuts)})
    for a, b in itertools.pairwise(edges):
        frames = borders.feed(stream[a:b])
        if frames:
            kept.add(frames, borders.messages, borders.is_in_message)


@given(made, st.lists(st.integers(0, 10**6), max_size=15), st.data())
def test_any_suffix_comes_back_whole_however_the_stream_was_cut(
    shapes: list[tuple[int, int]], cuts: list[int], data: st.DataObject
) -> None:
    messages = [message(number, size, parts) for number, (size, parts) in enumerate(shapes, 1)]
    kept = KeptMessages(ROOMY, AGES)
    keep(kept, b"".join(messages), cuts)
    forgotten = data.draw(st.integers(1, len(messages) + 1))
    kept.forget_below(forgotten)
    assert kept.dropped == 0
    for ordinal in range(1, len(messages) + 2):
        assert kept.covers(ordinal) is (ordinal >= forgotten)
        if ordinal >= forgotten:
            assert kept.since(ordinal) == b"".join(messages[ordinal - 1 :])
        else:
            with pytest.raises(ValueError, match=f"above {forgotten - 1}"):
                kept.since(ordinal)


def test_a_message_that_is_not_whole_yet_is_kept_from_its_start() -> None:
    whole = message(2, 20, 3)
    kept = KeptMessages(ROOMY, AGES)
    keep(kept, message(1, 20) + whole[:-10], [])  # the last fragment is under way
    kept.forget_below(2)
    assert kept.since(2) == whole[: 2 * len(whole) // 3]
    kept.forget_below(1)
    assert kept.covers(2)
    assert not kept.covers(1)


@given(made, st.lists(st.integers(0, 10**6), max_size=15), st.integers(50, 100_000))
def test_beyond_the_bound_the_oldest_go_and_what_is_left_is_whole(
    shapes: list[tuple[int, int]], cuts: list[int], most_bytes: int
) -> None:
    messages = [message(number, size, parts) for number, (size, parts) in enumerate(shapes, 1)]
    kept = KeptMessages(most_bytes, AGES)
    keep(kept, b"".join(messages), cuts)
    assert kept.size_bytes <= most_bytes
    assert kept.forgotten_upto == kept.dropped
    first = kept.forgotten_upto + 1
    assert kept.covers(first)
    assert kept.since(first) == b"".join(messages[first - 1 :])


def test_a_checkpoint_beyond_the_gap_makes_the_call_movable_again() -> None:
    kept = KeptMessages(500, AGES)
    for number in range(1, 6):
        kept.add(message(number, 100), number, False)
    assert (kept.covers(3), kept.covers(4), kept.dropped) == (False, True, 3)
    kept.forget_below(5)
    assert kept.covers(5)
    assert (kept.since(5), kept.dropped) == (message(5, 100), 3)


def test_what_is_too_old_goes_too() -> None:
    kept = KeptMessages(ROOMY, 30 * NS_PER_S)
    for second in range(60):
        kept.tick(second * NS_PER_S)
        kept.add(message(second + 1, 100), second + 1, False)
    kept.tick(60 * NS_PER_S)
    assert kept.covers(31)
    assert not kept.covers(28)
    assert kept.dropped == kept.forgotten_upto
    assert 29 <= len(kept._marks) <= 32
    kept.tick(200 * NS_PER_S)
    assert not kept.covers(60)
    assert kept.size_bytes == 0


def test_an_idle_call_keeps_nothing_and_loses_nothing() -> None:
    kept = KeptMessages(ROOMY, 30 * NS_PER_S)
    kept.add(message(1, 100), 1, False)
    kept.forget_below(2)
    for second in range(0, 4000, 7):
        kept.tick(second * NS_PER_S)
    assert (kept.covers(2), kept.dropped, kept.size_bytes, len(kept._marks)) == (True, 0, 0, 0)


def test_while_no_runtime_is_there_nothing_is_pushed_out() -> None:
    kept = KeptMessages(500, 30 * NS_PER_S)
    kept.is_frozen = True
    for number in range(1, 6):
        assert kept.is_full is (number > 3)
        kept.add(message(number, 100), number, False)
    for second in range(100):
        kept.tick(second * NS_PER_S)
    assert kept.since(1) == b"".join(message(number, 100) for number in range(1, 6))


def test_a_control_frame_is_no_message() -> None:
    kept = KeptMessages(ROOMY, AGES)
    keep(kept, build_frame(PING, b"x", KEY) + message(1, 5) + build_frame(PING, b"", KEY) + message(2, 5), [])
    assert kept.since(2) == message(2, 5)


def test_a_flood_of_tiny_frames_is_bounded_by_what_it_takes() -> None:  # not by what it carries
    kept = KeptMessages(100_000, 30 * NS_PER_S)
    for _ in range(5_000):
        kept.add(bytes(6), 0, True)
    assert kept.size_bytes < 5_000
    assert not kept.covers(1)
    kept.is_frozen = True
    kept.add(bytes(6), 0, True)
    assert kept.is_full
