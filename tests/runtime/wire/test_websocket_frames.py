"""Frame borders: any split of the stream gives the same bytes, controls, counts and failures."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.wire.websocket_frames import (
    CLOSE,
    PING,
    PONG,
    AsideFrame,
    ControlFrame,
    FrameBorders,
    build_frame,
    close_payload,
    parse_close,
)

KEY = b"\x01\x02\x03\x04"
LIMIT = 200_000


def frame(opcode: int, payload: bytes, masked: bool, fin: bool = True) -> bytes:
    made = bytearray(build_frame(opcode, payload, KEY if masked else b""))
    if not fin:
        made[0] &= 0x7F
    return bytes(made)


def run(data: bytes, cuts: list[int], masked: bool, may_fragment: bool = True) -> tuple[bytes, list[ControlFrame], int, object]:
    reader = FrameBorders(is_masked=masked, max_frame_bytes=LIMIT, may_fragment=may_fragment)
    edges = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    out = b"".join(reader.feed(data[a:b]) for a, b in itertools.pairwise(edges))
    assert reader.buffered_bytes <= LIMIT + 14
    return out, reader.controls, reader.messages, reader.failure


sizes = st.one_of(st.integers(0, 300), st.sampled_from([125, 126, 65535, 65536]))


@st.composite
def messages(draw: st.DrawFn) -> tuple[list[tuple[int, bytes, bool]], int]:
    """Well-formed frames with fragments and controls between them, and how many messages they make."""
    frames: list[tuple[int, bytes, bool]] = []
    count = draw(st.integers(0, 5))
    for _ in range(count):
        parts = draw(st.integers(1, 3))
        for part in range(parts):
            opcode = draw(st.sampled_from([1, 2])) if part == 0 else 0
            frames.append((opcode, b"x" * draw(sizes), part == parts - 1))
            if draw(st.booleans()):
                frames.append((draw(st.sampled_from([PING, PONG])), b"p" * draw(st.integers(0, 125)), True))
    return frames, count


@given(messages(), st.lists(st.integers(0, 500_000), max_size=12), st.booleans())
def test_any_split_gives_the_same(made: tuple[list[tuple[int, bytes, bool]], int], cuts: list[int], masked: bool) -> None:
    frames, count = made
    data = b"".join(frame(opcode, payload, masked, fin) for opcode, payload, fin in frames)
    expected = b"".join(frame(opcode, payload, masked, fin) for opcode, payload, fin in frames if opcode < 8)
    controls = [ControlFrame(opcode, payload) for opcode, payload, _ in frames if opcode >= 8]
    assert run(data, cuts, masked) == (expected, controls, count, None)


@given(st.binary(max_size=400), st.lists(st.integers(0, 400), max_size=20), st.booleans(), st.booleans())
def test_any_bytes_give_the_same_answer_however_split(data: bytes, cuts: list[int], masked: bool, fragments: bool) -> None:
    whole = run(data, [], masked, fragments)
    assert run(data, cuts, masked, fragments) == whole
    assert run(data, list(range(len(data))), masked, fragments) == whole


def test_one_whole_frame_is_forwarded_without_a_copy() -> None:
    data = frame(2, b"x" * 640, masked=True)
    assert FrameBorders(is_masked=True, max_frame_bytes=LIMIT).feed(data) is data


@pytest.mark.parametrize(
    ("data", "code", "words"),
    [
        (bytes.fromhex("c101"), 1002, "reserved bits"),
        (bytes.fromhex("8380"), 1002, "opcode 3"),
        (bytes.fromhex("8b80"), 1002, "opcode 11"),
        (bytes.fromhex("8101"), 1002, "not masked"),
        (bytes.fromhex("0980"), 1002, "fragmented"),
        (bytes.fromhex("89fe"), 1002, "longer than 125"),
        (bytes.fromhex("8881"), 1002, "one byte"),
        (bytes.fromhex("8080"), 1002, "continuation without"),
        (bytes.fromhex("018000000000") + bytes.fromhex("8180"), 1002, "message in a message"),
        (bytes.fromhex("82ff") + (LIMIT + 1).to_bytes(8, "big"), 1009, "at most 200000"),
        (bytes.fromhex("82ff") + b"\x7f" + b"\xff" * 7, 1009, "at most"),
        (bytes.fromhex("82ff") + b"\xff" * 8, 1002, "highest bit"),
        (bytes.fromhex("82ff") + b"\x80" + bytes(7), 1002, "highest bit"),
        (bytes.fromhex("82fe007d"), 1002, "more bytes than it needs"),
        (bytes.fromhex("82ff000000000000ffff"), 1002, "more bytes than it needs"),
    ],
)
def test_breaches_are_failures_at_the_earliest_byte(data: bytes, code: int, words: str) -> None:
    reader = FrameBorders(is_masked=True, max_frame_bytes=LIMIT)
    for index in range(len(data)):
        assert reader.failure is None or index > 0
        reader.feed(data[index : index + 1])
    assert reader.failure is not None
    assert reader.failure.close_code == code
    assert words in reader.failure.text
    assert reader.feed(frame(2, b"later", masked=True)) == b""
    assert reader.buffered_bytes == 0


def test_a_length_in_more_bytes_than_it_needs_is_a_breach_in_a_whole_frame_too() -> None:
    reader = FrameBorders(is_masked=True, max_frame_bytes=LIMIT)
    assert reader.feed(bytes.fromhex("82fe0001") + bytes(5)) == b""
    assert reader.failure is not None
    assert reader.failure.close_code == 1002


@pytest.mark.parametrize(("payload_bytes", "allowed"), [(7_000, LIMIT // 7_000), (0, LIMIT // 64 + 1), (1, LIMIT // 64 + 1)])
def test_a_message_is_bounded_however_many_fragments_it_has(payload_bytes: int, allowed: int) -> None:
    def piece(first: int) -> bytes:
        return bytes((first,)) + frame(2, bytes(payload_bytes), masked=True)[1:]

    reader = FrameBorders(is_masked=True, max_frame_bytes=LIMIT)
    for _ in range(2):  # a bound of each message, not of all
        reader.feed(piece(0x02))
        for _ in range(3):
            assert reader.feed(piece(0x00))
        assert reader.feed(piece(0x80))
    assert reader.messages == 2
    passed = 1
    reader.feed(piece(0x02))
    while reader.feed(piece(0x00)):
        passed += 1
        assert passed <= allowed + 1
    assert reader.failure is not None
    assert reader.failure.close_code == 1009
    assert "a message in fragments" in reader.failure.text
    assert abs(passed - allowed) <= 1


@pytest.mark.parametrize("masked", [True, False])
def test_every_second_byte_is_judged_alike_in_one_piece_and_byte_by_byte(masked: bool) -> None:
    for second in range(256):
        for size in range(2, 12):
            data = bytes((0x82, second)) + b"\x00" * (size - 2)
            assert run(data, [], masked) == run(data, list(range(size)), masked), (second, size)


def test_what_was_whole_before_a_breach_is_forwarded() -> None:
    good = frame(1, b"hello", masked=False)
    reader = FrameBorders(is_masked=False, max_frame_bytes=LIMIT, may_fragment=False)
    assert reader.feed(good + frame(1, b"half", masked=False, fin=False)) == good
    assert reader.failure is not None
    assert "fragmented" in reader.failure.text


def test_nothing_counts_after_a_close() -> None:
    close = frame(CLOSE, close_payload(1000, "bye"), masked=True)
    reader = FrameBorders(is_masked=True, max_frame_bytes=LIMIT)
    assert reader.feed(frame(1, b"a", masked=True) + close + frame(1, b"b", masked=True)) == frame(1, b"a", masked=True)
    assert reader.controls == [ControlFrame(CLOSE, b"\x03\xe8bye")]
    assert reader.feed(frame(1, b"c", masked=True)) == b""
    assert reader.messages == 1


@pytest.mark.parametrize(
    ("payload", "code"),
    [(b"", 1005), (b"\x03\xe8", 1000), (b"\x0b\xb8ok", 3000), (b"\x03\xed", None), (b"\x03\xe8\xff", None), (b"\x00\x01", None)],
)
def test_close_payloads(payload: bytes, code: int | None) -> None:
    assert parse_close(payload) == code


def test_a_close_reason_is_cut_at_a_character() -> None:
    payload = close_payload(1011, "é" * 100)
    assert len(payload) <= 125
    assert parse_close(payload) == 1011


# Asides

ASIDE = 0x92
_SHORT = 300


def aside(payload: bytes, masked: bool) -> bytes:
    return build_frame(ASIDE & 0x7F, payload, KEY if masked else b"")


def agreed(*, masked: bool) -> FrameBorders:
    return FrameBorders(is_masked=masked, max_frame_bytes=LIMIT, aside_first_byte=ASIDE, longest_aside_bytes=_SHORT)


@given(
    st.lists(st.one_of(st.integers(0, 130), st.tuples(st.integers(0, _SHORT)), st.none()), max_size=12),
    st.lists(st.integers(0, 5000), max_size=12),
    st.booleans(),
)
def test_asides_are_taken_out_with_their_place_however_the_stream_is_split(
    made: list[int | tuple[int] | None], cuts: list[int], masked: bool
) -> None:
    """A number is a message of so many bytes, a tuple an aside, None a ping."""
    data, forwarded, found, ordinal = b"", b"", [], 0
    for each in made:
        if isinstance(each, int):
            ordinal += 1
            one = frame(2, b"m" * each, masked)
            forwarded += one
        elif each is None:
            one = frame(PING, b"", masked)
        else:
            payload = bytes(range(256)) * 2
            one = aside(payload[: each[0]], masked)
            found.append(AsideFrame(ordinal, payload[: each[0]]))
        data += one
    reader = agreed(masked=masked)
    edges = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    assert b"".join(reader.feed(data[a:b]) for a, b in itertools.pairwise(edges)) == forwarded
    assert (reader.asides, reader.messages, reader.failure) == (found, ordinal, None)
    assert len(reader.controls) == made.count(None)


def test_an_aside_may_come_between_the_fragments_of_a_message() -> None:
    reader = agreed(masked=True)
    start, rest = frame(1, b"be", True, fin=False), frame(0, b"gin", True)
    assert reader.feed(start + aside(b"note", True) + rest) == start + rest
    assert (reader.asides, reader.messages) == ([AsideFrame(0, b"note")], 1)


@pytest.mark.parametrize(
    ("data", "code", "words"),
    [
        (aside(b"", True), 1002, "masked"),
        (aside(bytes(_SHORT + 1), False), 1009, "at most 300"),
        (b"\x92\x7f\x7f" + b"\xff" * 7, 1009, "an aside"),
        (b"\x92\x7f" + b"\xff" * 8, 1002, "highest bit"),
        (b"\x12\x00", 1002, "reserved bits"),  # an aside is whole
        (b"\x91\x00", 1002, "reserved bits"),
        (b"\xd2\x00", 1002, "reserved bits"),
    ],
)
def test_what_is_no_aside_is_a_breach(data: bytes, code: int, words: str) -> None:
    for pieces in ([data], [bytes((each,)) for each in data]):
        reader = agreed(masked=False)
        for piece in pieces:
            reader.feed(piece)
        assert reader.failure is not None
        assert reader.failure.close_code == code
        assert words in reader.failure.text
        assert reader.asides == []


def test_without_the_agreement_an_aside_is_a_breach() -> None:
    reader = FrameBorders(is_masked=False, max_frame_bytes=LIMIT)
    reader.feed(aside(b"note", False))
    assert reader.failure is not None
    assert "reserved bits" in reader.failure.text


def test_a_plain_frame_is_not_copied_where_asides_may_come() -> None:
    data = frame(2, b"x" * 640, masked=False)
    assert agreed(masked=False).feed(data) is data
