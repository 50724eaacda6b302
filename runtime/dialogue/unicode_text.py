"""Text that every wire can carry: halves of characters are joined, and those that stay alone are replaced. Pure."""

from __future__ import annotations

from typing import Final

__all__ = ["WholeText", "whole"]

_FIRST_HALVES: Final = ("\ud800", "\udbff")


def whole(text: str) -> str:
    """The text with surrogate pairs joined and lone surrogates, which no UTF-8 has, replaced by U+FFFD.

    JSON can spell them (`"\\\\ud83d"`), and who cuts a text by UTF-16 units makes them.

    >>> whole("\\ud83d\\ude00 \\ud83d") == "\\U0001f600 \\ufffd"
    True
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


class WholeText:
    """Text that comes in pieces, which may be cut within a character."""

    __slots__ = ("_half",)

    def __init__(self) -> None:
        self._half = ""

    def feed(self, piece: str) -> str:
        """The piece, behind what the last one left; the first half of a character waits for the second."""
        text, self._half = self._half + piece, ""
        if text and _FIRST_HALVES[0] <= text[-1] <= _FIRST_HALVES[1]:
            text, self._half = text[:-1], text[-1]
        return whole(text)

    def flush(self) -> str:
        """What waits for a second half that does not come."""
        half, self._half = self._half, ""
        return whole(half)
