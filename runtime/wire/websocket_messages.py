"""Whole data messages out of whole frames, for who has to read a few of them and relays the rest unread.

The frames are such as `FrameBorders` hands out, whose borders are right and in order.
"""

from __future__ import annotations

from runtime.wire.websocket_frames import unmask

__all__ = ["read_messages"]


def read_messages(frames: bytes) -> tuple[list[bytes], bytes]:
    """The payloads of the messages that are complete, unmasked, and the frames of one that is not.

    >>> read_messages(b"\\x81\\x02ab" + b"\\x01\\x01c")
    ([b'ab'], b'\\x01\\x01c')
    """
    messages: list[bytes] = []
    parts: list[bytes] = []
    begin = at = 0
    while at < len(frames):
        is_last, second = frames[at] & 0x80, frames[at + 1]
        length, at = second & 0x7F, at + 2
        if length > 125:
            extended = 2 if length == 126 else 8
            length, at = int.from_bytes(frames[at : at + extended], "big"), at + extended
        if second & 0x80:
            parts.append(unmask(frames[at + 4 : at + 4 + length], frames[at : at + 4]))
            at += 4 + length
        else:
            parts.append(frames[at : at + length])
            at += length
        if is_last:
            messages.append(b"".join(parts))
            parts.clear()
            begin = at
    return messages, frames[begin:]
