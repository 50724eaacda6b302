"""Turns the token texts of GPT-2 style vocabularies back into words.

Such a vocabulary writes every byte as one printable character (GPT-2 encoder.py, `bytes_to_unicode`): printable Latin-1 bytes
stand for themselves, the other 68 are written as the characters from U+0100 on, in order of their value.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

__all__ = ["detokenize"]

_PRINTABLE: Final = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
_OTHERS: Final = [byte for byte in range(0x100) if byte not in _PRINTABLE]
_BYTE_OF: Final = {chr(byte): byte for byte in _PRINTABLE} | {chr(0x100 + n): byte for n, byte in enumerate(_OTHERS)}


def detokenize(tokens: Iterable[str]) -> str:
    """The text of the tokens. Special tokens (`<|...|>`) say nothing; bytes that are no UTF-8 become U+FFFD.

    >>> detokenize(["<|notimestamps|>", "\u0120Hello", ",", "\u0120caf", "\u00c3", "\u00a9"])
    ' Hello, café'
    """
    said = (token for token in tokens if not (token.startswith("<|") and token.endswith("|>")))
    data = bytes(_BYTE_OF[character] for token in said for character in token if character in _BYTE_OF)
    return data.decode("utf-8", errors="replace")
