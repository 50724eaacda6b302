"""Borders of WebSocket frames (RFC 6455 section 5) in a byte stream, without unmasking or copying payloads.

One reader a direction. It is fed whatever bytes arrived and gives back the bytes that may be forwarded: whole data frames,
exactly as they came, control frames taken out. The result does not depend on how the stream was split, except in how many
pieces the same bytes come. A breach is never raised: it is kept in `failure` with the close code to answer; nothing comes
after it. Where an extension for them was agreed, asides (asides.py) are taken out too, each with its place among the messages.

    |F|R|R|R| opcode(4) |M| length(7: 0-125, 126: +16 bits, 127: +64 bits) | mask key (32, if M) | payload |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = [
    "CLOSE",
    "PING",
    "PONG",
    "AsideFrame",
    "BorderFailure",
    "ControlFrame",
    "FrameBorders",
    "build_frame",
    "close_payload",
    "parse_close",
    "unmask",
]

CONTINUATION: Final = 0x0
CLOSE: Final = 0x8
PING: Final = 0x9
PONG: Final = 0xA
_EXTENSION_BITS: Final = 0x70
_LEAST_FRAGMENT_BYTES: Final = 64  # what one counts for at least: or a message of empty ones would never end
_MOST_CONTROLS: Final = 256  # of one piece of bytes: nobody needs as many in a minute, and each costs as much as a frame of audio
_BAD_LENGTH: Final = -1
_BAD_LENGTH_TEXT: Final = "a length in more bytes than it needs, or with its highest bit set"
_CLOSE_CODES_ALLOWED: Final = frozenset({1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 1012, 1013, 1014})


@dataclass(frozen=True, slots=True)
class BorderFailure:
    """What the peer did wrong, with the close code of RFC 6455 section 7.4.1."""

    close_code: int
    text: str


@dataclass(frozen=True, slots=True)
class ControlFrame:
    """A whole close, ping or pong, payload unmasked (at most 125 bytes)."""

    opcode: int
    payload: bytes


@dataclass(frozen=True, slots=True)
class AsideFrame:
    """A whole aside, payload unmasked. `after`: ordinal of the last complete data message before it."""

    after: int
    payload: bytes


class FrameBorders:
    """Reads one direction. `max_frame_bytes` bounds a whole message too, in however many fragments it comes.

    `is_masked`: the sender is a client. `may_fragment`: continuation frames are allowed. `aside_first_byte`: which first byte of
    a frame makes it an aside, of at most `longest_aside_bytes`; 0: no extension was agreed, and such a frame is a breach.
    """

    __slots__ = (
        "_aside_first_byte",
        "_at_border",
        "_held",
        "_is_masked",
        "_key_bytes",
        "_longest_aside_bytes",
        "_mask_bit",
        "_max_frame_bytes",
        "_may_fragment",
        "_message_bytes",
        "_needed",
        "asides",
        "controls",
        "failure",
        "is_closed",
        "is_in_message",
        "messages",
    )

    def __init__(
        self,
        *,
        is_masked: bool,
        max_frame_bytes: int,
        may_fragment: bool = True,
        aside_first_byte: int = 0,
        longest_aside_bytes: int = 0,
    ) -> None:
        if not 125 <= max_frame_bytes < 2**63:
            raise ValueError(f"max_frame_bytes is {max_frame_bytes}; allowed: 125 and up")
        self._is_masked = is_masked
        self._mask_bit = 0x80 if is_masked else 0
        self._key_bytes = 4 if is_masked else 0
        self._at_border = True  # between two messages with nothing held, not failed, not closed
        self._max_frame_bytes = max_frame_bytes
        self._may_fragment = may_fragment
        self._aside_first_byte = aside_first_byte
        self._longest_aside_bytes = longest_aside_bytes
        self._held = bytearray()
        self._message_bytes = 0  # of the fragments of a message that is not complete
        self._needed = 0  # held bytes below which no border can be found; spares a slow sender's frame from being rescanned
        self.is_in_message = False
        """What was handed out last ends within a message: more fragments of it follow."""
        self.is_closed = False
        """A close frame was found: whatever comes after it is ignored."""
        self.controls: list[ControlFrame] = []
        """Control frames found since the caller last emptied this list; a close is the last thing ever found."""
        self.asides: list[AsideFrame] = []
        """Asides found since the caller last emptied this list."""
        self.messages = 0
        """Ordinal of the last complete data message."""
        self.failure: BorderFailure | None = None

    @property
    def buffered_bytes(self) -> int:
        """What is held of a frame that is not whole yet: at most `max_frame_bytes` (or an aside's most) and a header."""
        return len(self._held)

    def feed(self, data: bytes) -> bytes:
        """The forwardable bytes that `data` completes, possibly none."""
        # By far the most frequent case, one whole unfragmented frame, is decided without the loop.
        if self._at_border and len(data) > 3 and (data[0] == 0x82 or data[0] == 0x81):
            length = data[1] ^ self._mask_bit  # 128 and up where the mask bit is wrong
            head = 2
            if length == 126:
                length = data[2] << 8 | data[3]
                head = 4
                if length < 126:
                    length = 1 << 62
            elif length > 126:
                length = 1 << 62  # not here: a long frame, or a breach
            if head + self._key_bytes + length == len(data) and length <= self._max_frame_bytes:
                self.messages += 1
                return data
        forward = self._scan(data)
        self._at_border = not (self._held or self.is_in_message or self.is_closed or self.failure is not None)
        return forward

    def _scan(self, data: bytes) -> bytes:
        held = self._held
        if held:
            held += data
            if len(held) < self._needed:
                return b""
            data = bytes(held)
            held.clear()
        if self.is_closed:
            return b""
        size, at = len(data), 0
        start = 0  # of the run of data frames not handed out yet
        runs: list[bytes] = []
        while at < size and self.failure is None:
            if size - at < 2:  # of a header: its first byte decides the kind, its second the length's form
                self._needed = 2
                break
            first, second = data[at], data[at + 1]
            length, body = second & 0x7F, at + 2
            if length > 125:
                extended = 2 if length == 126 else 8
                if size < body + extended:
                    self._needed = 2 + extended
                    self._allows(first, second, 0)  # a breach in the first two bytes does not wait for the rest
                    break
                length = int.from_bytes(data[body : body + extended], "big")
                body += extended
                if length < (126 if extended == 2 else 65_536) or length >> 63:
                    length = _BAD_LENGTH
            if not self._allows(first, second, length):
                break
            if self._is_masked:
                body += 4
            end = body + length
            if end > size:
                self._needed = end - at
                break
            is_aside = first & _EXTENSION_BITS
            if is_aside or first & 0x08:
                if at > start:
                    runs.append(data[start:at])
                payload = data[body:end]
                if self._is_masked:
                    payload = unmask(payload, data[body - 4 : body])
                at = start = end
                if is_aside:
                    self.asides.append(AsideFrame(self.messages, payload))
                    continue
                self.controls.append(ControlFrame(first & 0x0F, payload))
                if first & 0x0F == CLOSE:
                    self.is_closed = True
                    break
                if len(self.controls) > _MOST_CONTROLS:
                    self._fail(1008, f"more than {_MOST_CONTROLS} pings and pongs at once")
                continue
            self.is_in_message = not first & 0x80
            if first & 0x80:
                self.messages += 1
                self._message_bytes = 0
            else:
                self._message_bytes += max(length, _LEAST_FRAGMENT_BYTES)
            at = end
        if at > start:
            runs.append(data if start == 0 and at == len(data) else data[start:at])
        if at < size and self.failure is None and not self.is_closed:
            held += data[at:]
        return runs[0] if len(runs) == 1 else b"".join(runs)

    def _allows(self, first: int, second: int, length: int) -> bool:
        """Whether this frame may come now; records the failure otherwise."""
        opcode = first & 0x0F
        is_aside = first == self._aside_first_byte != 0
        if first & _EXTENSION_BITS and not is_aside:
            return self._fail(1002, "reserved bits are set")
        if 2 < opcode < 8 or opcode > PONG:
            return self._fail(1002, f"opcode {opcode} is reserved")
        if bool(second & 0x80) is not self._is_masked:
            return self._fail(1002, "a client's frame is not masked" if self._is_masked else "a server's frame is masked")
        if is_aside:
            if length == _BAD_LENGTH:
                return self._fail(1002, _BAD_LENGTH_TEXT)
            if length > self._longest_aside_bytes:
                return self._fail(1009, f"an aside of {length} bytes; at most {self._longest_aside_bytes}")
            return True
        if opcode & 0x08:
            if not first & 0x80:
                return self._fail(1002, "a control frame is fragmented")
            if second & 0x7F > 125:
                return self._fail(1002, "a control frame is longer than 125 bytes")
            if opcode == CLOSE and length == 1:
                return self._fail(1002, "a close payload of one byte")
            return True
        if (opcode == CONTINUATION) is not self.is_in_message:
            return self._fail(1002, "a continuation without a start" if opcode == CONTINUATION else "a message in a message")
        if not self._may_fragment and not first & 0x80:
            return self._fail(1002, "a fragmented message")
        if length == _BAD_LENGTH:
            return self._fail(1002, _BAD_LENGTH_TEXT)
        if length + self._message_bytes > self._max_frame_bytes:
            what = "a message in fragments" if self._message_bytes else "a frame"
            return self._fail(1009, f"{what} of {length + self._message_bytes} bytes; at most {self._max_frame_bytes}")
        return True

    def _fail(self, close_code: int, text: str) -> bool:
        self.failure = BorderFailure(close_code, text)
        return False


def unmask(payload: bytes, key: bytes) -> bytes:
    """Exclusive or with the repeated key, as one long number: linear, and a hundred times faster than byte by byte."""
    length = len(payload)
    repeated = (key * (length // 4 + 1))[:length]
    return (int.from_bytes(payload, "little") ^ int.from_bytes(repeated, "little")).to_bytes(length, "little")


def build_frame(opcode: int, payload: bytes, mask_key: bytes = b"") -> bytes:
    """One whole frame. A client's needs a `mask_key` of 4 bytes (unpredictable where the path is not trusted).

    >>> build_frame(PING, b"ab").hex(), build_frame(PING, b"ab", bytes(4)).hex()
    ('89026162', '8982000000006162')
    """
    length = len(payload)
    mask_bit = 0x80 if mask_key else 0
    if length < 126:
        head = bytes((0x80 | opcode, mask_bit | length))
    elif length < 65536:
        head = bytes((0x80 | opcode, mask_bit | 126)) + length.to_bytes(2, "big")
    else:
        head = bytes((0x80 | opcode, mask_bit | 127)) + length.to_bytes(8, "big")
    return head + mask_key + (unmask(payload, mask_key) if mask_key else payload)


def close_payload(code: int, reason: str = "") -> bytes:
    """The payload of a close frame; the reason is cut to what fits, at a character's border."""
    return code.to_bytes(2, "big") + reason.encode()[:123].decode(errors="ignore").encode()


def parse_close(payload: bytes) -> int | None:
    """The code of a close payload: 1005 (RFC 6455: none was given) for an empty one, None for one that may not be sent."""
    if not payload:
        return 1005
    code = int.from_bytes(payload[:2], "big")
    if code not in _CLOSE_CODES_ALLOWED and not 3000 <= code <= 4999:
        return None
    try:
        payload[2:].decode()
    except UnicodeDecodeError:
        return None
    return code
